#!/usr/bin/env bash
# Installs the libraries for C, the headers, and what pkg-config and CMake need. Nothing outside PREFIX is touched.
#
#   scripts/install.sh PREFIX [FOLDER]     FOLDER has the built libraries; without it they are built in release
#
# DESTDIR is put before PREFIX for the copies alone, as packages need it.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=${1:?usage: scripts/install.sh PREFIX [FOLDER]}
case $prefix in
  /*) ;;
  *) echo "install: PREFIX must be an absolute path, and is '$prefix'" >&2 && exit 2 ;;
esac
folder=${2:-}
if [ -z "$folder" ]; then
  cargo build --release -p ironbridge-capi
  folder=${CARGO_TARGET_DIR:-target}/release
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' capi/Cargo.toml | head -n 1)
major=${version%%.*}

if [ "$(uname -s)" = Darwin ]; then
  built=libironbridge.dylib soname=libironbridge.$major.dylib shared=libironbridge.$version.dylib
  private='-framework Foundation -framework Metal -framework CoreGraphics -lobjc -liconv -lm'
else
  built=libironbridge.so soname=libironbridge.so.$major shared=libironbridge.so.$version
  private='-lBlocksRuntime -lgnustep-base -lobjc -lpthread -ldl -lm'
fi

root=${DESTDIR:-}$prefix
mkdir -p "$root/lib/pkgconfig" "$root/lib/cmake/ironbridge" "$root/include/ironbridge"
scripts/link-shared.sh "$folder" "$root/lib/$shared"
ln -sf "$shared" "$root/lib/$soname"
ln -sf "$soname" "$root/lib/$built"
install -m 644 "$folder/libironbridge.a" "$root/lib/libironbridge.a"
install -m 644 include/*.h include/*.hpp include/module.modulemap "$root/include/ironbridge/"

fill() {
  sed -e "s|@PREFIX@|$prefix|g" -e "s|@VERSION@|$version|g" -e "s|@SHARED@|$shared|g" -e "s|@SONAME@|$soname|g" \
    -e "s|@PRIVATE@|$private|g" "capi/install/$1.in" >"$2"
}
fill ironbridge.pc "$root/lib/pkgconfig/ironbridge.pc"
fill ironbridge-config.cmake "$root/lib/cmake/ironbridge/ironbridge-config.cmake"
fill ironbridge-config-version.cmake "$root/lib/cmake/ironbridge/ironbridge-config-version.cmake"
echo "install: ironbridge $version is in $root"
