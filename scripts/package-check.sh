#!/usr/bin/env bash
# Packs the crate as crates.io would get it, unpacks it outside the repository, builds it there and runs its tests, but
# for two kinds, whose outcome the package cannot change: the kernels' own, which read no file that the build does not,
# and the detector, which builds the crate again.
#
#   scripts/package-check.sh [FEATURES]
set -euo pipefail
cd "$(dirname "$0")/.."

# The tree may be work in progress; what it holds is what is checked.
cargo package --allow-dirty --no-verify --quiet
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
crate=${CARGO_TARGET_DIR:-target}/package/ironbridge-$version.crate
echo "package: $(basename "$crate"), $(($(wc -c <"$crate") / 1024)) KiB, $(tar -tzf "$crate" | wc -l | tr -d ' ') files"

outside=$(mktemp -d)
trap 'rm -rf "$outside"' EXIT
tar -xzf "$crate" -C "$outside"

# The dependencies are those of the repository's own build, so their compiled form is shared; the crate itself is built
# anew.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
cd "$outside/ironbridge-$version"
chosen=(--locked --features "${1:-cli}")
cargo test "${chosen[@]}" --lib -- --skip cpu::kernel --skip cpu::gemm --skip cpu::attention --skip cpu::repack
cargo test "${chosen[@]}" --bins --examples --test '*' -- --skip detector::
cargo test "${chosen[@]}" --doc
