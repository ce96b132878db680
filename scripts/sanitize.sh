#!/usr/bin/env bash
# Runs tests with the bridge and the software device under AddressSanitizer and LeakSanitizer. Arguments go to `cargo
# test`; without any, the tests that go through the bridge run.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/sanitizer.sh address

[ $# -gt 0 ] || set -- --test c_abi --test diagnostics --test facade --test failures --test forked --test lifetimes \
  --test memory --test memory_trace --test schedules
cargo test --target "$host" "$@"
