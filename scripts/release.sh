#!/usr/bin/env bash
# What a release gives for the machine that this runs on, in target/release-files: a tarball with the command line, the
# libraries for C, the headers and the licenses; on Linux the Debian package; a bill of materials (CycloneDX); and the
# SHA-256 sums of all of them. The tarball is unpacked elsewhere, and its program writes text.
#
#   scripts/release.sh [PROFILE]    release, or dev, which is what continuous integration has built already
#
# Exits with 69 (sysexits.h's EX_UNAVAILABLE) where a tool cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly OUT=target/release-files CYCLONEDX_VERSION=0.5.9 FEATURES=cli,pull,tracing
profile=${1:-release}
folder=$profile
[ "$profile" != dev ] || folder=debug
target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
export PATH=$target/tools/bin:$PATH

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
system=$(uname -s | tr '[:upper:]' '[:lower:]' | sed 's/darwin/macos/')
name=ironbridge-$version-$(uname -m | sed 's/arm64/aarch64/')-$system
rm -rf "$OUT" && mkdir -p "$OUT"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/$name/bin" "$root/$name/share/man/man1"

# The program of the Debian package is the one of the tarball.
if [ "$system" = linux ]; then
  scripts/deb.sh "$profile"
  cp target/deb/*.deb "$OUT/"
  cp target/deb/content/usr/bin/ironbridge "$root/$name/bin/"
else
  cargo build --profile "$profile" --features "$FEATURES" --bin ironbridge
  strip -o "$root/$name/bin/ironbridge" "$target/$folder/ironbridge"
fi
"$root/$name/bin/ironbridge" man --out "$root/$name/share/man/man1"
cargo build --profile "$profile" -p ironbridge-capi
DESTDIR="$root/$name.c" scripts/install.sh /usr/local "$target/$folder"
cp -R "$root/$name.c/usr/local/." "$root/$name/"
cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE THIRD_PARTY.md "$root/$name/"
scripts/licenses.py ironbridge "$FEATURES" >"$root/$name/licenses.txt"
tar -C "$root" -czf "$OUT/$name.tar.gz" "$name"

command -v cargo-cyclonedx >/dev/null ||
  cargo install --quiet --locked --root "$target/tools" --version "$CYCLONEDX_VERSION" cargo-cyclonedx ||
  { echo 'release: cargo-cyclonedx is not here and cannot be installed' >&2 && exit 69; }
# It writes beside each manifest of the workspace.
cargo cyclonedx --quiet --format json --features "$FEATURES" --override-filename "$name.cdx"
mv "$name.cdx.json" "$OUT/"
rm "capi/$name.cdx.json"

if command -v sha256sum >/dev/null; then sums=(sha256sum); else sums=(shasum -a 256); fi
(cd "$OUT" && "${sums[@]}" -- * >"$root/sums" && mv "$root/sums" "$name.sha256" && "${sums[@]}" -c "$name.sha256")

mkdir "$root/elsewhere"
tar -C "$root/elsewhere" -xzf "$OUT/$name.tar.gz"
text=$("$root/elsewhere/$name/bin/ironbridge" generate -m assets/tiny-rustbook-q8_0.gguf -p 'Ownership is' -n 4 2>/dev/null)
[ "$text" = 'Ownership is a set of rules' ] || { echo "release: the unpacked program wrote '$text'" >&2 && exit 1; }
ls -l "$OUT"
