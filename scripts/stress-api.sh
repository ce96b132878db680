#!/usr/bin/env bash
# Random calls of every function of the headers (tests/stress_api), with the native code under a sanitizer.
#
#   scripts/stress-api.sh address|thread|both [SECONDS [THREADS [SEED]]]
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  address | thread) sanitizer=$1 ;;
  both)
    shift
    for sanitizer in address thread; do "$0" "$sanitizer" "$@"; done
    exit
    ;;
  *) echo "usage: $0 address|thread|both [SECONDS [THREADS [SEED]]]" >&2 && exit 2 ;;
esac
shift
. scripts/sanitizer.sh "$sanitizer"

# As scripts/debug-build.sh has it, with the smallest example in place of the test, for which cargo would build the
# command line.
cargo build --workspace --features ironbridge/cli,ironbridge/pull,ironbridge/tracing --lib --example generate
library=$CARGO_TARGET_DIR/debug
# Where capi/build.rs makes this link, the library itself is not.
ln -sfn libironbridge.so "$library/libironbridge.so.0"
program=$library/stress-api-$sanitizer
"$CLANG" -std=c11 -D_DEFAULT_SOURCE -O1 -g -fno-omit-frame-pointer "-fsanitize=$sanitizer" \
  -Wall -Wextra -Werror -pedantic -Iinclude tests/stress_api/*.c \
  "$library/libironbridge.so" "-Wl,-rpath,$library" -lpthread -o "$program"
# Rust code is not compiled for ThreadSanitizer, which does not see how Rust's compute threads wait for each other: the
# run begins with one of them.
[ "$sanitizer" != thread ] || export IRONBRIDGE_THREADS=${IRONBRIDGE_THREADS:-1}
IRONBRIDGE_PUBLISH=$(mktemp -d)
export IRONBRIDGE_PUBLISH
trap 'rm -rf "$IRONBRIDGE_PUBLISH"' EXIT
echo "stress-api under ${sanitizer^}Sanitizer"
"$program" "$@"
