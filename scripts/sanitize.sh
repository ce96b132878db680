#!/usr/bin/env bash
# Runs tests with the bridge and the software device under AddressSanitizer and LeakSanitizer. Arguments go to `cargo
# test`; without any, the tests that go through the bridge run.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/sanitizer.sh address

if [ $# -gt 0 ]; then
  cargo test --target "$host" "$@"
else
  # Programs in C are linked by a plain cc, without the sanitizer's runtime.
  cargo test --target "$host" --test c_abi --test facade -- --skip programs:: --skip stress_api::
  cargo test --target "$host" --test process -- default_device:: diagnostics:: forked:: leak_hook:: memory_trace:: \
    schedules::
fi
