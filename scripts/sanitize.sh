#!/usr/bin/env bash
# Runs tests with the bridge and the software device under AddressSanitizer and LeakSanitizer. Arguments go to `cargo test`; without
# any, the tests that go through the bridge run.
set -euo pipefail
cd "$(dirname "$0")/.."

# The runtime of the clang that build.rs picks must be the one that is linked.
for version in $(seq 39 -1 11) ''; do
  clang=clang${version:+-$version}
  ! command -v "$clang" >/dev/null || break
done
export CLANG=${CLANG:-$clang}
host=$(rustc -vV | sed -n 's/^host: //p')

# With --target, cargo leaves build scripts and procedural macros alone.
variable=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUSTFLAGS
export "$variable=-Clinker=$CLANG -Clink-arg=-fsanitize=address"
export IRONBRIDGE_TEST_ADDRESS_SANITIZER=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:fast_unwind_on_malloc=0}
export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$PWD/tests/native/lsan.supp:print_suppressions=0}

[ $# -gt 0 ] || set -- --test c_abi --test diagnostics --test facade --test failures --test forked --test lifetimes --test memory --test memory_trace --test schedules
cargo test --target "$host" "$@"
