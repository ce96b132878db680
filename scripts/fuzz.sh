#!/usr/bin/env bash
# Fuzzes what strangers write: chat templates, Metal sources and model files, under libFuzzer and AddressSanitizer.
#
#   scripts/fuzz.sh SECONDS [TARGET...]    each target of fuzz/fuzz_targets, or those named, for SECONDS
#
# What a target finds lies in fuzz/artifacts. It belongs into tests/data/hostile, which `make test` replays.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TIME=${1:?usage: scripts/fuzz.sh SECONDS [TARGET...]}
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(basename -s .rs fuzz/fuzz_targets/*.rs)

command -v cargo-fuzz >/dev/null || cargo install --quiet --locked cargo-fuzz
# Sanitizers are an unstable option of rustc, which a stable one takes when it is told to.
export RUSTC_BOOTSTRAP=1 ASAN_OPTIONS=detect_leaks=0
for target in "${targets[@]}"; do
  mkdir -p "fuzz/corpus/$target"
  options=("-max_total_time=$TIME" -timeout=20 -malloc_limit_mb=256 -print_final_stats=1)
  dictionary=fuzz/dictionaries/$target.dict
  [ ! -f "$dictionary" ] || options+=("-dict=$dictionary")
  echo "fuzz: $target, $TIME s"
  cargo fuzz run "$target" "fuzz/corpus/$target" "tests/data/hostile/$target" -- "${options[@]}"
done
