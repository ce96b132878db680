#!/usr/bin/env bash
# A Debian package of the command line by cargo-deb, in target/deb, with what dpkg finds that it needs.
#
#   scripts/deb.sh [PROFILE] [test]    PROFILE: release or dev. test: installs it in a bare Debian of this machine's
#                                      version, made for it, where it writes text; as root
#
# Exits with 69 (sysexits.h's EX_UNAVAILABLE) where the tools or the bare Debian cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly MOST_BYTES=15000000 CARGO_DEB_VERSION=3.8.0 OUT=target/deb
profile=release
[ "${1:-}" != dev ] && [ "${1:-}" != release ] || { profile=$1 && shift; }
folder=$profile
[ "$profile" != dev ] || folder=debug

fail() {
  printf 'deb: %s\n' "$@" >&2
  exit 1
}
unavailable() {
  printf 'deb: %s\n' "$@" >&2
  exit 69
}

target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
export PATH=$target/tools/bin:$PATH
# It runs for a second, so that it is compiled quickly.
command -v cargo-deb >/dev/null ||
  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    cargo install --quiet --locked --root "$target/tools" --version "$CARGO_DEB_VERSION" cargo-deb ||
  unavailable 'cargo-deb is not here and cannot be installed'
command -v dpkg-shlibdeps >/dev/null || apt-get install -y -qq --no-install-recommends dpkg-dev >/dev/null ||
  unavailable 'dpkg-shlibdeps is not here, and apt cannot fetch dpkg-dev'

# What makes the program small. The linker packs the addresses that the loader fills in: glibc knows how from 2.36 on,
# which is Debian 12's. An older one refuses the program; the package's dependencies say so. Equal functions are one,
# where the linker is LLVM's, which rustc brings for x86-64; nothing here compares their addresses. There it looks for
# texts that end alike, too. The command line is compiled for size; the library for speed, and in one piece, which is
# as fast and has each generic function once. Nobody listens to `tracing` there. The kernels for NVIDIA's GPUs, a fourth
# of a program that has them, are left to programs that are built where they run.
features=cli,pull
if [ "$profile" = release ]; then
  small=(-C opt-level=z -C codegen-units=1 -C link-arg=-Wl,-z,pack-relative-relocs)
  [ "$(uname -m)" != x86_64 ] || small+=(-C link-arg=-Wl,--icf=all -C link-arg=-Wl,-O2)
  cargo rustc --config 'profile.release.package.ironbridge.codegen-units=1' \
    --release --no-default-features --features "$features" --bin ironbridge -- "${small[@]}"
else
  scripts/debug-build.sh
fi
rm -rf "$OUT" && mkdir -p "$OUT"
"$target/$folder/ironbridge" man --out "$OUT/man"
"$target/$folder/ironbridge" completions bash >"$OUT/ironbridge.bash"
scripts/licenses.py ironbridge "$features" >"$OUT/licenses.txt"
quickly=()
[ "$profile" = release ] || quickly=(--fast)
cargo deb --quiet --no-build --strip "${quickly[@]}" --profile "$profile" --output "$OUT/"
package=$(ls "$OUT"/*.deb)

dpkg-deb --extract "$package" "$OUT/content"
bytes=$(stat -c %s "$OUT/content/usr/bin/ironbridge")
echo "deb: $package has $(stat -c %s "$package") bytes; its program has $bytes bytes and loads" \
  "$(ldd "$OUT/content/usr/bin/ironbridge" | wc -l) libraries"
echo "deb: it depends on $(dpkg-deb --field "$package" Depends)"
for wanted in libgnustep-base libobjc libc6; do
  dpkg-deb --field "$package" Depends | grep -q "$wanted" || fail "it does not depend on $wanted"
done
[ "$profile" = dev ] || [ "$bytes" -lt "$MOST_BYTES" ] ||
  fail "the program has $bytes bytes, which are more than $MOST_BYTES"
[ "${1:-}" = test ] || exit 0

[ "$(id -u)" = 0 ] || fail 'not root, which a bare Debian needs'
command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap >/dev/null ||
  unavailable 'debootstrap is not here, and apt cannot fetch it'
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
system=$(mktemp -d "${TMPDIR:-/tmp}/deb.XXXXXX")
end() {
  umount "$system/proc" "$system/sys" 2>/dev/null || true
  if grep -qF " $system/" /proc/self/mounts; then
    echo "deb: something is still mounted in $system, so it is left there" >&2
  else
    rm -rf "$system"
  fi
}
trap end EXIT
debootstrap --variant=minbase "$suite" "$system" "${MIRROR:-http://deb.debian.org/debian}" >"$OUT/log" 2>&1 || {
  tail -n 5 "$OUT/log" >&2
  unavailable "debootstrap cannot make a bare $suite"
}
# debootstrap may leave its own.
mountpoint -q "$system/proc" || mount -t proc proc "$system/proc"
# How this machine reaches the network.
cp -L /etc/resolv.conf "$system/etc/resolv.conf"
for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
  if grep -qsiE '^[^/#]*acquire' "$file"; then cp "$file" "$system/etc/apt/apt.conf.d/"; fi
done
cp "$package" "$system/root/ironbridge.deb"
cp assets/tiny-rustbook-q8_0.gguf "$system/root/model.gguf"
inside() {
  env -i http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    DEBIAN_FRONTEND=noninteractive chroot "$system" /bin/sh -ec "$1" </dev/null
}
inside 'apt-get update -qq && apt-get install -y -qq --no-install-recommends /root/ironbridge.deb' >"$OUT/log" 2>&1 ||
  { tail -n 20 "$OUT/log" >&2 && fail 'apt does not install it'; }
text=$(inside 'ironbridge generate -m /root/model.gguf -p "Ownership is" -n 4' 2>"$OUT/log") || {
  cat "$OUT/log" >&2
  fail 'it does not run'
}
[ "$text" = 'Ownership is a set of rules' ] || fail "it wrote '$text'"
inside 'ironbridge --version; test -f /usr/share/man/man1/ironbridge.1.gz; ironbridge devices >/dev/null'
inside 'apt-get remove -y -qq ironbridge' >/dev/null 2>&1
[ ! -e "$system/usr/bin/ironbridge" ] || fail 'it is still there after it was removed'
echo "deb: installed, ran and went in a bare $suite"
