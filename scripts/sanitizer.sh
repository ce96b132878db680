# Sourced: what a build under a sanitizer needs. $1: address or thread.

# The runtime of the clang that build.rs picks must be the one that is linked.
for version in $(seq 39 -1 11) ''; do
  clang=clang${version:+-$version}
  ! command -v "$clang" >/dev/null || break
done
export CLANG=${CLANG:-$clang}
export "IRONBRIDGE_TEST_$(tr 'a-z' 'A-Z' <<<"$1")_SANITIZER=1"
# A folder of its own for what is built, and the ordinary one for the rest: dependencies are those of the tests.
. scripts/shared-dependencies.sh sanitizer
# The sanitizers watch the native side; the Rust side compiles in a third of the time where it is not optimized.
export CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=line-tables-only
# Reports and suppressions name functions and files. The runtime does not find every symbolizer by itself.
symbolizer=$(command -v "${clang/clang/llvm-symbolizer}" || command -v llvm-symbolizer || command -v addr2line)
symbolizer=external_symbolizer_path=$(readlink -f "$symbolizer")
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:fast_unwind_on_malloc=0:$symbolizer}
export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$PWD/tests/native/lsan.supp:print_suppressions=0}
# Crashes are the program's to report: ThreadSanitizer's own handler crashes in turn.
export TSAN_OPTIONS=${TSAN_OPTIONS:-suppressions=$PWD/tests/native/tsan.supp:handle_segv=0:handle_sigbus=0:$symbolizer}
