#!/usr/bin/env bash
# The library's tests on an emulated 64-bit ARM processor, one with dot products of bytes and one without: the kernels
# in every instruction set that it has, the switch between stacks, Metal sources, and a generation through the whole
# bridge.
#
#   scripts/test-neon.sh            all that can be run there
#   scripts/test-neon.sh quick      what CI runs: every operation of vectors, products of small integers, the switch
#                                   between stacks; without optimization
#   scripts/test-neon.sh FILTER...  the unit tests whose names contain one of these, on both processors
#
# Debian's packages for arm64 are unpacked into target/neon, beside the system and not into it: GNUstep cannot be
# installed for two architectures at a time.
#
# Exits with 69 (sysexits.h's EX_UNAVAILABLE) where Rust's library or Debian's packages for arm64 cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TARGET=aarch64-unknown-linux-gnu SYSROOT=$PWD/target/neon/sysroot METAL_CLANG=$PWD/target/neon/clang
readonly WITH_DOT_PRODUCTS=max WITHOUT=cortex-a57
# The emulator reports the failure to start a program too late.
readonly NOT_HERE=(--skip a_named_one_is_taken_or_is_an_error)
readonly QUICK=(cpu::simd elementwise::tests::any_count msl::fiber msl::subnormals)
# What the library is linked with, and the headers and start-up files that its build needs.
readonly RUN_WITH=(libgnustep-base1.28 gnustep-base-common libblocksruntime0 libobjc4 libgcc-s1 libc6)
readonly BUILD_WITH=(libgnustep-base-dev libblocksruntime-dev libobjc-12-dev libgcc-12-dev libc6-dev linux-libc-dev)

say() { printf 'test-neon: %s\n' "$*"; }
fail() {
  say "$@" >&2
  exit 1
}
unavailable() {
  say "$@" >&2
  exit 69
}

# An apt of its own that knows arm64 only and believes that nothing is installed.
make_sysroot() {
  local apt=$PWD/target/neon/apt archive link
  [ ! -e "$SYSROOT/complete" ] || return 0
  command -v apt-get >/dev/null || unavailable 'this system has no apt to get the libraries for arm64 with'
  say "unpacking GNUstep and its libraries for arm64 into $SYSROOT"
  rm -rf "$SYSROOT" "$apt"
  mkdir -p "$SYSROOT" "$apt"/{state/lists,cache/archives}/partial
  : >"$apt/status"
  cat >"$apt/apt.conf" <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "";
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
END
  export APT_CONFIG=$apt/apt.conf
  { apt-get update -qq && apt-get install -qq -y --download-only "${RUN_WITH[@]}" >/dev/null &&
    (cd "$apt/cache/archives" && apt-get download -qq "${BUILD_WITH[@]}"); } ||
    unavailable "the system's package archive has no GNUstep for arm64, or cannot be reached"
  unset APT_CONFIG
  for archive in "$apt"/cache/archives/*.deb; do
    dpkg-deb -x "$archive" "$SYSROOT"
  done
  # Links that are meant for the root of that system.
  find "$SYSROOT" -type l -lname '/*' | while read -r link; do
    ln -sfn "$SYSROOT$(readlink "$link")" "$link"
  done
  rm -rf "$apt"
  touch "$SYSROOT/complete"
}

# The folder with the linker that comes with Rust, which knows all architectures.
rust_linker() {
  echo "$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/gcc-ld"
}

# A compiler for Metal sources at run time. It runs on this processor, which `native` would mean.
make_metal_compiler() {
  cat >"$METAL_CLANG" <<END
#!/bin/sh
for argument; do
  shift
  [ "\$argument" != -mcpu=native ] || argument=-march=armv8-a
  set -- "\$@" "\$argument"
done
exec $CLANG --target=$TARGET -fuse-ld=lld -B$(rust_linker) "\$@"
END
  chmod +x "$METAL_CLANG"
}

# Environment for cargo: what it builds is for arm64.
build_for_arm() {
  timeout 120 rustup target add "$TARGET" >/dev/null 2>&1 || true
  [ -d "$(rustc --print target-libdir --target "$TARGET")" ] ||
    unavailable "Rust's library for $TARGET is missing: rustup target add $TARGET"
  export IRONBRIDGE_SYSROOT=$SYSROOT CC_aarch64_unknown_linux_gnu=$CLANG AR_aarch64_unknown_linux_gnu=ar
  export CFLAGS_aarch64_unknown_linux_gnu=--sysroot=$SYSROOT CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$CLANG
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-Clink-arg=--target=$TARGET -Clink-arg=--sysroot=$SYSROOT
    -Clink-arg=-fuse-ld=lld -Clink-arg=-B$(rust_linker)"
}

# on PROCESSOR COMMAND...: what cargo runs, it runs on that processor.
on() {
  local processor=$1
  shift
  say "on $processor: $*"
  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="env IRONBRIDGE_CLANG=$METAL_CLANG qemu-aarch64 -cpu $processor -L $SYSROOT" "$@"
}

unit_tests() {
  cargo test --target "$TARGET" --lib ${FEATURES[@]+"${FEATURES[@]}"} -- "${NOT_HERE[@]}" "$@"
}

main() {
  scripts/setup.sh neon
  CLANG=$(command -v clang-19 || command -v clang)
  export CLANG
  make_sysroot
  build_for_arm
  make_metal_compiler
  case ${1:-} in
    '')
      on "$WITH_DOT_PRODUCTS" unit_tests
      on "$WITHOUT" unit_tests cpu::simd cpu::quants cpu::kernel cpu::registry cpu::gemm cpu::attention \
        cpu::repack cpu::scratch --skip in_every_way --skip tests::metal
      on "$WITH_DOT_PRODUCTS" cargo run --quiet --target "$TARGET" --example generate | tee /dev/stderr |
        grep -q '^Ownership is a set of rules that govern how a Rust program manages memory' || fail 'this text is wrong'
      ;;
    quick)
      FEATURES=(--no-default-features --features msl)
      # To compile the kernels well takes longer than to run these.
      export CARGO_PROFILE_DEV_OPT_LEVEL=0
      on "$WITH_DOT_PRODUCTS" unit_tests "${QUICK[@]}"
      on "$WITHOUT" unit_tests "${QUICK[@]}"
      ;;
    *)
      on "$WITH_DOT_PRODUCTS" unit_tests "$@"
      on "$WITHOUT" unit_tests "$@"
      ;;
  esac
}

main "$@"
