#!/usr/bin/env bash
# A Debian package of the command line by cargo-deb, in target/debian, with what dpkg finds that it needs.
#
#   scripts/deb.sh            makes it of the release build
#   scripts/deb.sh test       and installs it in a bare Debian of this machine's version, made for it, where it writes
#                             text; as root
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
readonly MOST_BYTES=15000000

tools=$target/tools
export PATH=$tools/bin:$PATH
command -v cargo-deb >/dev/null || cargo install --quiet --locked --root "$tools" --version '^3.8' cargo-deb

# Addresses that the loader fills in are a seventh of the program, unless the linker packs them (glibc 2.36).
cargo rustc --release --features cli,tracing --bin ironbridge -- -C link-arg=-Wl,-z,pack-relative-relocs
mkdir -p "$target/debian/share"
"$target/release/ironbridge" man --out "$target/debian/share/man"
"$target/release/ironbridge" completions bash >"$target/debian/share/ironbridge.bash"
rm -f "$target"/debian/*.deb
cargo deb --quiet --no-build --offline --features cli,tracing
package=$(ls "$target"/debian/*.deb)

strip -o "$target/debian/share/stripped" "$target/release/ironbridge"
bytes=$(stat -c %s "$target/debian/share/stripped")
echo "deb: $package, $(stat -c %s "$package") bytes; the program has $bytes bytes and loads" \
  "$(ldd "$target/debian/share/stripped" | wc -l) libraries"
[ "$bytes" -lt "$MOST_BYTES" ] || { echo "deb: the program has $bytes bytes, more than $MOST_BYTES" >&2 && exit 1; }
dpkg-deb --field "$package" Depends
[ "${1:-}" = test ] || exit 0

[ "$(id -u)" = 0 ] || { echo 'deb: not root, which a bare Debian needs' >&2 && exit 1; }
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
system=$(mktemp -d "${TMPDIR:-/tmp}/deb.XXXXXX")
trap 'rm -rf "$system"' EXIT
log=$target/debian/log
debootstrap --variant=minbase "$suite" "$system" "${MIRROR:-http://deb.debian.org/debian}" >"$log" ||
  { tail -n 5 "$log" >&2 && exit 1; }
umount "$system/proc" "$system/sys" 2>/dev/null || true
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
inside 'apt-get update -qq && apt-get install -y -qq --no-install-recommends /root/ironbridge.deb' >"$log" 2>&1 ||
  { tail -n 20 "$log" >&2 && exit 1; }
text=$(inside 'ironbridge generate -m /root/model.gguf -p "Ownership is" -n 4 2>/dev/null')
[ "$text" = 'Ownership is a set of rules' ] || { echo "deb: it wrote '$text'" >&2 && exit 1; }
inside 'ironbridge --version && test -f /usr/share/man/man1/ironbridge.1.gz && ironbridge doctor >/dev/null'
inside 'apt-get remove -y -qq ironbridge' >/dev/null
echo "deb: installed, ran and went in a bare $suite"
