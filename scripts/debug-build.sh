#!/usr/bin/env bash
# The debug builds of the program and of the libraries for C, which are the ones that `make test` has built.
#
#   scripts/debug-build.sh [OPTION...]    options of cargo's
#
# Cargo compiles the library anew for each set of features, its dependencies' included, which the tests' own
# dependencies add to. The smallest test in the command makes the set the same, with the Makefile's WORKSPACE_FEATURES.
set -euo pipefail
cd "$(dirname "$0")/.."

exec cargo build --workspace --features ironbridge/cli,ironbridge/pull,ironbridge/tracing \
  --lib --bin ironbridge --test features "$@"
