#!/usr/bin/env bash
# Packs the crate as crates.io would get it, unpacks it outside the repository, builds all of it there, and runs the
# tests that read files: those are what a package can lack. The others ran in the repository, on the same code.
#
#   scripts/package-check.sh [FEATURES [short]]    short: each file of the repository is in the package or is of those
#                                                  that need not be, and a program that depends on the package runs
set -euo pipefail
cd "$(dirname "$0")/.."

# The tree may be work in progress; what it holds is what is checked.
cargo package --allow-dirty --no-verify --quiet
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
crate=${CARGO_TARGET_DIR:-target}/package/ironbridge-$version.crate
echo "package: $(basename "$crate"), $(($(wc -c <"$crate") / 1024)) KiB, $(tar -tzf "$crate" | wc -l | tr -d ' ') files"

# What belongs to the repository alone, or is a crate of its own.
lacks=$(comm -13 <(cargo package --allow-dirty --list --quiet | sort) <(git ls-files | sort) |
  grep -vE '^(\.ci/|\.editorconfig$|\.gitignore$|action\.yml$|benches/(peers|soak-candle)/|capi/|fuzz/)' || true)
[ -z "$lacks" ] || { printf 'package: it lacks %s\n' $lacks >&2 && exit 1; }

outside=$(mktemp -d)
trap 'rm -rf "$outside"' EXIT
tar -xzf "$crate" -C "$outside"
if [ "${2:-}" = short ]; then
  scripts/dependent.sh short "$outside/ironbridge-$version"
  exit
fi

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
