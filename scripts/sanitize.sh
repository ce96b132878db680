#!/usr/bin/env bash
# Runs tests with the bridge and the software device under AddressSanitizer and LeakSanitizer.
#
#   scripts/sanitize.sh              the tests that go through the bridge
#   scripts/sanitize.sh short        the same without those of many schedules
#   scripts/sanitize.sh ARGUMENT...  what `cargo test` is told
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/sanitizer.sh address

if [ $# -gt 0 ] && [ "$*" != short ]; then
  cargo test --target "$host" "$@"
else
  # Programs in C are linked by a plain cc, without the sanitizer's runtime.
  cargo test --workspace --target "$host" --test c_abi --test facade -- --skip programs:: --skip stress_api::
  processes=(default_device:: diagnostics:: forked:: leak_hook:: memory_trace::)
  [ "$*" = short ] || processes+=(schedules::)
  cargo test --workspace --target "$host" --test process -- "${processes[@]}"
fi
