#!/usr/bin/env bash
# Builds the book of README.md and docs/ into target/book, with the mdBook on the path, else with one of its own in
# target/tools.
set -euo pipefail
cd "$(dirname "$0")/.."

MDBOOK_VERSION=0.5.4
REPOSITORY=https://github.com/ironbridge-rs/ironbridge
STAGE=target/book-source

mdbook=$(type -P mdbook || true)
if [ -z "$mdbook" ]; then
  mdbook=$PWD/target/tools/mdbook-$MDBOOK_VERSION/bin/mdbook
  [ -x "$mdbook" ] || cargo install mdbook --version "$MDBOOK_VERSION" --locked --no-default-features --features search \
    --root "target/tools/mdbook-$MDBOOK_VERSION"
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
