#!/usr/bin/env bash
# Installs what the build and the tests need, and says what it cannot install. Quick and silent when nothing is missing.
#
#   scripts/setup.sh          clang, libclang, GNUstep, GCC's Objective-C runtime, the blocks runtime; checks cargo
#   scripts/setup.sh apple    the same and the Rust that `make check-apple` type-checks with
#   scripts/setup.sh peers    the same as the first, and what llama.cpp is built with for `make bench-peers`
#   scripts/setup.sh neon     the same as the first, and the emulator that `make test-neon` runs on
#   scripts/setup.sh models   the same as the first, and pip and venv, by which `make test-models` and `make chat` fetch
#   scripts/setup.sh go       the same as the first, and Go, which `make test-go` needs
#   scripts/setup.sh abi      the same as the first, and abidiff, which `make check-abi` needs
#   scripts/setup.sh lint     the same as the first, and pip, from which `make words` has its spelling checker
#   scripts/setup.sh debian   the same as the first, and what makes Debian packages and bare Debians
#   scripts/setup.sh A B...   all of these
set -euo pipefail
cd "$(dirname "$0")/.."

# The clang that this code is tested with. Older than the oldest, a distribution's newest is taken instead.
readonly TESTED_CLANG=19 OLDEST_CLANG=18

say() { printf 'setup: %s\n' "$*"; }
fail() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
available() { apt-cache show "$1" >/dev/null 2>&1; }

# The sanitizers' runtime left libclang-common for a package of its own with clang 15.
clang_packages() {
  local version=$1 runtime="libclang-rt-$1-dev"
  [ "$version" -ge 15 ] || runtime="libclang-common-$version-dev"
  printf '%s\n' "clang-$version" "libclang-$version-dev" "$runtime"
}

# The version in the names of packages that match a pattern, newest first: versions 'clang-[0-9]+' → 22 19 16 …
versions() { apt-cache search --names-only "^$1\$" | sed -E 's/^[a-z-]*([0-9]+).*/\1/' | sort -rnu; }

# A complete clang that is installed already will do, the tested one first.
installed_clang() {
  local version package complete
  for version in "$TESTED_CLANG" $(seq 39 -1 "$OLDEST_CLANG"); do
    complete=yes
    for package in $(clang_packages "$version"); do
      installed "$package" || { complete= && break; }
    done
    [ -z "$complete" ] || { echo "$version" && return; }
  done
}

available_clang() {
  available "clang-$TESTED_CLANG" && echo "$TESTED_CLANG" && return
  versions 'clang-[0-9]+' | sed -n 1p
}

# The major version of the gcc that is here or that apt would install.
gcc_version() {
  if command -v gcc >/dev/null; then
    gcc -dumpversion | cut -d. -f1
  else
    apt-cache depends gcc 2>/dev/null | sed -n 's/.*Depends: gcc-\([0-9]*\)$/\1/p'
  fi
}

# rustc links with GCC, which searches the folder of its own version, so that version's runtime fits best; any other
# serves.
objc_runtime() {
  local version gcc
  gcc=$(gcc_version)
  for version in $gcc $(seq 20 -1 9); do
    installed "libobjc-$version-dev" && echo "libobjc-$version-dev" && return
  done
  for version in $gcc $(versions 'libobjc-[0-9]+-dev'); do
    available "libobjc-$version-dev" && echo "libobjc-$version-dev" && return
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "not root and no sudo here. As root, run:" "  $*"
  fi
}

setup_apt() {
  local wanted=(gcc g++ libc6-dev binutils make cmake pkg-config python3 python3-venv)
  wanted+=(libgnustep-base-dev libblocksruntime-dev)
  local missing=() package clang objc what
  for what; do
    case $what in
      apple) rust_for_apple || wanted+=(rustc-web cargo-web rust-web-src) ;;
      peers) wanted+=(cmake "clang-$TESTED_CLANG" "libomp-$TESTED_CLANG-dev") ;;
      go) wanted+=(golang-go) ;;
      abi) wanted+=(abigail-tools) ;;
      neon) wanted+=(qemu-user) ;;
      lint) wanted+=(python3-pip) ;;
      models) wanted+=(python3-pip python3-venv) ;;
      debian) wanted+=(debootstrap dpkg-dev) ;;
      *) fail "there is no '$what' to set up: see the head of scripts/setup.sh" ;;
    esac
  done
  clang=$(installed_clang)
  objc=$(objc_runtime)
  for package in "${wanted[@]}"; do
    installed "$package" || missing+=("$package")
  done
  [ -z "$clang" ] || [ -z "$objc" ] || ! installed "$objc" || [ ${#missing[@]} -gt 0 ] || return 0

  as_root apt-get update -qq </dev/null
  clang=${clang:-$(available_clang)}
  objc=$(objc_runtime)
  if [ -z "$clang" ] || [ -z "$objc" ]; then
    fail "apt knows no clang-N or no libobjc-N-dev (on Ubuntu they are in 'universe')"
  fi
  for package in $(clang_packages "$clang") "$objc"; do
    installed "$package" || missing+=("$package")
  done
  say "installing ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-remove --no-install-recommends "${missing[@]}" </dev/null
}

setup_mac() {
  xcode-select -p >/dev/null 2>&1 || fail "the command line tools are missing: run 'xcode-select --install' and try again"
  xcrun --find clang >/dev/null 2>&1 || fail "xcrun finds no clang: run 'xcode-select --install' and try again"
}

list_what_to_install() {
  say "this system has no apt. The build needs, with their headers:"
  say "  clang $OLDEST_CLANG or newer and libclang (tested with $TESTED_CLANG), its sanitizer runtime for the tests"
  say "  GNUstep base, GCC's Objective-C runtime (libobjc, not libobjc2), the blocks runtime (libBlocksRuntime)"
  say "  gcc, g++, make and python3"
  say "README.md has the names of Fedora's and Arch's packages, under 'Systems'."
  say "The build itself names what it does not find."
}

# Whether rustc's own toolchain has, or rustup could fetch, the standard library of an Apple silicon Mac.
rust_for_apple() {
  local target=aarch64-apple-darwin library
  library=$(rustc --print target-libdir --target "$target" 2>/dev/null) || return 1
  [ -d "$library" ] || rustup target add "$target" >/dev/null 2>&1 || true
  [ -d "$library" ]
}

check_cargo() {
  local least have
  least=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  command -v cargo >/dev/null ||
    fail "there is no Rust here; $least or newer is needed: curl -sSf https://sh.rustup.rs | sh, then . ~/.cargo/env"
  have=$(cargo --version | cut -d' ' -f2)
  [ "$(printf '%s\n' "$least" "$have" | sort -t. -k1,1n -k2,2n | head -n 1)" = "$least" ] ||
    fail "cargo $have is too old: Rust $least or newer is needed. 'rustup update stable' gets it."
}

main() {
  # First: whoever must fetch Rust should not wait for other packages to hear it.
  check_cargo
  case $(uname -s) in
    Darwin) setup_mac ;;
    Linux) if command -v apt-get >/dev/null; then setup_apt "$@"; else list_what_to_install; fi ;;
    *) fail "$(uname -s) is not supported: ironbridge runs on Linux and on macOS 13 or later" ;;
  esac
}

main "$@"
