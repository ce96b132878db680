#!/usr/bin/env bash
# Runs tests with the bridge and the software device under AddressSanitizer and LeakSanitizer.
#
#   scripts/sanitize.sh              the tests that go through the bridge
#   scripts/sanitize.sh short        the same without those of many schedules, and without those of models and of their
#                                    training, whose code is Rust; scripts/stress-api.sh calls their C functions
#   scripts/sanitize.sh ARGUMENT...  what `cargo test` is told
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/sanitizer.sh address

# Those of the Makefile's tests.
features=ironbridge/cli,ironbridge/pull,ironbridge/tracing
if [ $# -gt 0 ] && [ "$*" != short ]; then
  cargo test "$@"
else
  # Programs in C are linked by a plain cc, without the sanitizer's runtime.
  skipped=(--skip programs:: --skip stress_api::)
  processes=(default_device:: diagnostics:: forked:: leak_hook:: memory_trace::)
  if [ "$*" = short ]; then skipped+=(--skip llama:: --skip training_); else processes+=(schedules::); fi
  cargo test --workspace --features "$features" --test c_abi --test facade -- "${skipped[@]}"
  cargo test --workspace --features "$features" --test process -- "${processes[@]}"
fi
