#!/usr/bin/env bash
# The Go program, through cgo, against the debug build of the library.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh go
command -v go >/dev/null || { echo 'test-go: there is no Go here: Debian has it as golang-go' >&2 && exit 1; }
scripts/debug-build.sh
library=$(cd "${CARGO_TARGET_DIR:-target}/debug" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

export GO111MODULE=off CGO_CFLAGS=-I$PWD/include CGO_LDFLAGS="-L$library -Wl,-rpath,$library"
go vet examples/go/generate.go
go build -o "$out/generate" examples/go/generate.go
text=$("$out/generate" assets/tiny-rustbook-q8_0.gguf)
[ "$text" = 'Ownership is a set of rules that govern' ] || { echo "test-go: it wrote '$text'" >&2 && exit 1; }
if "$out/generate" /no/such/model 2>"$out/errors" || ! grep -q '^IRON_ERROR_FILE: iron_model_open: ' "$out/errors"; then
  echo 'test-go: a missing model is no error of its own:' >&2
  cat "$out/errors" >&2
  exit 1
fi
echo 'test-go: right'
