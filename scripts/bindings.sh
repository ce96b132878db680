#!/usr/bin/env bash
# Copies the declarations that bindgen made of the C headers over the checked-in ones.
set -euo pipefail
cd "$(dirname "$0")/.."

# The package id of a dependency begins with its registry, ours with its path.
out=$(cargo build --lib --message-format=json |
  sed -n 's/^{"reason":"build-script-executed","package_id":"path+file.*"out_dir":"\([^"]*\)".*/\1/p')
[ -f "$out/ironbridge.rs" ] || { echo "bindings: the build script left nothing in '$out'" >&2 && exit 1; }

# (made, checked in), as in build/bindings.rs.
while read -r made checked_in; do
  cmp -s "$out/$made" "$checked_in" || { cp "$out/$made" "$checked_in" && echo "bindings: $checked_in is new"; }
done <<'FILES'
ironbridge.rs src/ffi/ironbridge.rs
monitor.rs src/ffi/monitor.rs
args.rs src/backend/ffi/args.rs
backend.rs src/backend/ffi/backend.rs
FILES
