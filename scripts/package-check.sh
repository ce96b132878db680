#!/usr/bin/env bash
# Packs the crate as crates.io would get it, unpacks it outside the repository, builds all of it there, and runs the
# tests that read files: those are what a package can lack. The others ran in the repository, on the same code.
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
cargo test "${chosen[@]}" --no-run
cargo test "${chosen[@]}" --lib -- llama:: msl::target
cargo test "${chosen[@]}" --bins --examples --test cli --test llama
cargo test "${chosen[@]}" --test c_abi -- programs:: bindings:: stress_api::
cargo test "${chosen[@]}" --test device -- softmetal_device::
cargo test "${chosen[@]}" --test facade -- public_api::
cargo test "${chosen[@]}" --test process -- hostile_surroundings:: memory_processes::leaks
cargo test "${chosen[@]}" --doc
