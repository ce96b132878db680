#!/usr/bin/env bash
# Links the shared library that is installed, of the static one, with versioned symbols. rustc writes a version script
# of its own for cargo's cdylib, which cannot be replaced and lists Rust's functions without a version.
#
#   scripts/link-shared.sh FOLDER OUTPUT     FOLDER has what cargo built: libironbridge.a and, on a Mac, the dylib
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:?usage: scripts/link-shared.sh FOLDER OUTPUT}
output=${2:?usage: scripts/link-shared.sh FOLDER OUTPUT}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' capi/Cargo.toml | head -n 1)

if [ "$(uname -s)" = Darwin ]; then
  # Symbols have no versions there: the library's name and its own version are all.
  install -m 755 "$folder/libironbridge.dylib" "$output"
  exit
fi
# The blocks runtime stands before GNUstep, which exports a _Block_copy that copies nothing.
"${CC:-cc}" -shared -o "$output" -Wl,-soname,"libironbridge.so.${version%%.*}" -Wl,-z,relro,-z,now -Wl,-z,defs \
  -Wl,--version-script=capi/install/ironbridge.map -Wl,--gc-sections \
  -Wl,--whole-archive "$folder/libironbridge.a" -Wl,--no-whole-archive \
  -lBlocksRuntime -lgnustep-base -lobjc -lgcc_s -lpthread -ldl -lm -lc
# Line tables are for a debugger, and most of the file.
strip --strip-unneeded "$output"
