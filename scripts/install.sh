#!/usr/bin/env bash
# Installs the libraries for C, the headers, and what pkg-config and CMake need; on Linux Metal's headers for
# Objective-C, too. Nothing outside PREFIX is touched.
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
    -e "s|@PRIVATE@|$private|g" -e "s|@OBJECTIVE_C@|${objective_c:-}|g" \
    -e "s|@OBJECTIVE_C_LIBS@|${objective_c_libs:-}|g" "capi/install/$1.in" >"$2"
}
fill ironbridge.pc "$root/lib/pkgconfig/ironbridge.pc"
fill ironbridge-config.cmake "$root/lib/cmake/ironbridge/ironbridge-config.cmake"
fill ironbridge-config-version.cmake "$root/lib/cmake/ironbridge/ironbridge-config-version.cmake"

# For clang. What gnustep-config says of this machine, without the folders of who installs. GCC's Objective-C headers
# come last: the folder has headers of the compiler, too, and clang has its own.
if [ "$(uname -s)" != Darwin ]; then
  runtime=$(printf '%s\n' /usr/lib*/gcc/*/*/include/objc/objc.h | sort -V | tail -n 1)
  [ -f "$runtime" ] || { echo 'install: there are no Objective-C headers of GCC below /usr/lib/gcc' >&2 && exit 1; }
  runtime=${runtime%/include/objc/objc.h}
  if command -v gnustep-config >/dev/null; then
    config="$(gnustep-config --objc-flags) $(gnustep-config --base-libs)"
  else
    config="-DGNUSTEP -DGNUSTEP_BASE_LIBRARY=1 -DGNU_RUNTIME=1 -D_NATIVE_OBJC_EXCEPTIONS -fexceptions \
      -fobjc-exceptions -fconstant-string-class=NSConstantString -pthread -I/usr/include/GNUstep"
  fi
  objective_c="-fobjc-runtime=gcc -fblocks" objective_c_libs="-L$runtime"
  for flag in $config; do
    case $flag in
      -DGSWARN | -DGSDIAGNOSE | -fPIC | -[IL]"${HOME:-/root}"/*) ;;
      -I/*) [ ! -d "${flag#-I}" ] || objective_c+=" -isystem ${flag#-I}" ;;
      -L/*) [ ! -d "${flag#-L}" ] || objective_c_libs+=" $flag" ;;
      -D* | -f* | -pthread) [[ " $objective_c " == *" $flag "* ]] || objective_c+=" $flag" ;;
    esac
  done
  objective_c+=" -D_GNU_SOURCE -idirafter $runtime/include"
  # GNUstep exports a _Block_copy that copies nothing: the blocks runtime is the program's own library, and before it.
  objective_c_libs="-Wl,--push-state,--no-as-needed -lBlocksRuntime -Wl,--pop-state $objective_c_libs \
-lgnustep-base -lobjc -lm"
  mkdir -p "$root/include/softmetal/Metal" "$root/include/softmetal/objc"
  install -m 644 native/softmetal/headers/Metal/*.h "$root/include/softmetal/Metal/"
  # GNUstep's headers ask for it, and GCC's runtime has none.
  printf '#include <Block.h>\n' >"$root/include/softmetal/objc/blocks_runtime.h"
  fill softmetal.pc "$root/lib/pkgconfig/softmetal.pc"
  for header in objc/message.h CoreFoundation/CoreFoundation.h IOSurface/IOSurfaceRef.h TargetConditionals.h; do
    install -D -m 644 "native/softmetal/headers/metal-cpp/$header" "$root/include/softmetal-cpp/$header"
  done
  fill softmetal-cpp.pc "$root/lib/pkgconfig/softmetal-cpp.pc"
fi
echo "install: ironbridge $version is in $root"
