#!/usr/bin/env bash
# What can be known about the Mac without one: the crate's Rust type-checks for Apple silicon, and the Objective-C
# compiles without a warning against Apple's own headers.
#
#   scripts/check-apple.sh [rust|objc]     one half only; both without an argument
#
# APPLE_SDK names a folder that holds Apple's headers as `Frameworks/` (Foundation, Metal and what they include) and
# `include/`.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TARGET=aarch64-apple-darwin

# The newest clang that is here, as build.rs picks it.
clang() {
  local version
  for version in $(seq 39 -1 11); do
    command -v "clang-$version" && return
  done
  command -v clang
}

check_rust() {
  scripts/setup.sh apple
  # The host's clang cannot compile Objective-C for a Mac without its SDK, and type checks need nothing of it.
  export IRONBRIDGE_CHECK_ONLY=1
  # A dependency of criterion compiles one C file, which needs no libc.
  CC_aarch64_apple_darwin=$(clang)
  export CC_aarch64_apple_darwin AR_aarch64_apple_darwin=ar CFLAGS_aarch64_apple_darwin=-ffreestanding
  # Tests of what the native build makes, its bindings and its compiler, are left out by cfg(ironbridge_native).
  local check=(check --target "$TARGET" --features cli --lib --bins --examples --benches --test '*')
  if [ -d "$(rustc --print target-libdir --target "$TARGET" 2>/dev/null)" ]; then
    echo "check-apple: Rust, with rustup's standard library for $TARGET"
    cargo "${check[@]}"
  else
    # Debian's rustc-web comes with the standard library's source, which cargo then builds for the target.
    echo "check-apple: Rust, with Debian's rustc-web and its standard library built for $TARGET"
    # Nothing of the ordinary build can be shared with another compiler, and what runs here runs once: do not optimize
    # it.
    export CARGO_PROFILE_DEV_BUILD_OVERRIDE_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=false
    RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/rustc-web" \
      /usr/bin/cargo "${check[@]}" -Zbuild-std
  fi
}

check_objc() {
  if [ -z "${APPLE_SDK:-}" ]; then
    echo "check-apple: the Objective-C half was NOT run: APPLE_SDK is not set."
    echo "  Set it to a folder with Apple's headers in Frameworks/ and include/, for example from https://github.com/hexops/xcode-frameworks:"
    echo "  make check-apple APPLE_SDK=/path/to/xcode-frameworks"
    return
  fi
  local folder
  for folder in Frameworks include; do
    [ -d "$APPLE_SDK/$folder" ] || { echo "check-apple: APPLE_SDK=$APPLE_SDK has no $folder/" >&2 && exit 1; }
  done

  local source count=0 failed=0 compiler
  compiler=${CLANG:-$(clang)}
  # native/softmetal/headers is not on the path: <Metal/Metal.h> is Apple's here.
  local compile=("$compiler" --target=arm64-apple-macos13 -std=c11 -fno-objc-arc -fblocks -fsyntax-only
    -Wall -Wextra -Wunguarded-availability-new -Werror
    -nostdlibinc -isystem "$APPLE_SDK/include" -iframework "$APPLE_SDK/Frameworks"
    -Iinclude -Inative -Inative/bridge -Inative/kernels -Inative/objects -Inative/softmetal)
  # The check finds what it is for: a use of macOS 15's API on macOS 13.
  local said
  said=$("${compile[@]}" -x objective-c - 2>&1 <<'PLANTED' || true
#import <Foundation/Foundation.h>
API_AVAILABLE(macos(15.0)) void newer(void);
void use(void);
void use(void) { newer(); }
PLANTED
  )
  [[ $said == *Wunguarded-availability-new* ]] ||
    { echo "check-apple: API of macOS 15 passed for macOS 13: $said" >&2 && exit 1; }
  while IFS= read -r source; do
    count=$((count + 1))
    "${compile[@]}" "$source" || failed=$((failed + 1))
  done < <(find native -name '*.m' -o -name '*.c' | LC_ALL=C sort)
  echo "check-apple: $((count - failed)) of $count native files compile against Apple's headers, warnings as errors"
  [ "$failed" = 0 ] && [ "$count" -gt 0 ]
}

case ${1:-both} in
  rust) check_rust ;;
  objc) check_objc ;;
  both) check_rust && check_objc ;;
  *) echo "usage: $0 [rust|objc]" >&2 && exit 2 ;;
esac
