#!/usr/bin/env bash
# Lints the crate with each combination of its features, by cargo-hack, and runs the tests of builds without some of
# them.
#
#   scripts/check-features.sh [short]    short: none of the features, and each one alone
#
# A combination whose features bring each other is left out where another one is the same. Linting builds nothing
# native; the tests do.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
export PATH=$target/tools/bin:$PATH
command -v cargo-hack >/dev/null || cargo install --quiet --locked --root "$target/tools" --version '^0.6.37' cargo-hack ||
  { echo 'check-features: cargo-hack is not here and cannot be installed' >&2 && exit 69; }

sets=(--feature-powerset)
[ "${1:-}" != short ] || sets=(--each-feature)
# `default` is chat, llama, msl and software-device, which are there by themselves.
IRONBRIDGE_CHECK_ONLY=1 cargo hack clippy --quiet --target-dir "$target/features" --package ironbridge --lib --bins \
  "${sets[@]}" --exclude-features default -- -D warnings </dev/null

for features in '' software-device llama,software-device; do
  echo "check-features: tests with ${features:-no feature}"
  cargo test --quiet --no-default-features --features "$features" --test features </dev/null
done
