#!/usr/bin/env bash
# A newcomer's program: a crate of its own that depends on this one, with the README's lines in its Cargo.toml, built as
# by `cargo run` and as by `cargo run --release`. The first may take three times as long to write text. Without the
# lines it must say, once, that it was compiled without optimization.
#
#   scripts/dependent.sh [short [CRATE]]    short: the last alone, which takes a minute and not ten
#
# CRATE is the folder that the program depends on, where it is not this repository.
set -euo pipefail
cd "$(dirname "$0")/.."

root=${2:-$PWD}
. scripts/shared-dependencies.sh dependent
target=$CARGO_TARGET_DIR
program=$target/program
mkdir -p "$program/src"

fail() {
  printf 'dependent: %s\n' "$@" >&2
  exit 1
}

# What README.md and the crate's documentation tell a program's Cargo.toml to say: their first block of TOML.
told=$(sed -n '/^```toml$/,/^```$/{/^```$/q;/^```/d;s/ *#.*//;p}' README.md)
[ -n "$told" ] || fail 'README.md has no block of TOML'
[ "$told" = "$(sed -n 's|^//! \?||;/^```toml$/,/^```$/{/^```$/q;/^```/d;p}' src/lib.rs)" ] ||
  fail "README.md and src/lib.rs tell a program's Cargo.toml different things"

cat >"$program/src/main.rs" <<'PROGRAM'
//! Writes 32 tokens, prints the seconds that they took, and every warning to standard error.
use std::time::Instant;

use ironbridge::Device;
use ironbridge::llama::{Model, Sampler, SamplerOptions};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

struct Warnings;

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        eprintln!("warning: {event:?}");
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing::subscriber::set_global_default(Warnings)?;
    let path = std::env::args().nth(1).ok_or("which model?")?;
    let model = Model::open(&Device::open("cpu")?, &path)?;
    Device::open("cpu")?; // the second one warns of nothing
    let mut session = model.session()?;
    let sampler = Sampler::new(SamplerOptions::default())?;
    let prompt = model.encode_prompt("Ownership is");
    let start = Instant::now();
    let mut tokens = 0;
    for piece in session.generate(&prompt, sampler, 32) {
        piece?;
        tokens += 1;
    }
    assert_eq!(tokens, 32);
    println!("{:.4}", start.elapsed().as_secs_f64());
    Ok(())
}
PROGRAM

# build NAME LINES [FLAG]: the program, with those lines in its manifest, as $target/newcomer-NAME.
build() {
  local name=$1 folder=debug
  [ "${3:-}" != --release ] || folder=release
  cat >"$program/Cargo.toml" <<MANIFEST
[package]
name = "newcomer"
version = "0.1.0"
edition = "2024"

[dependencies]
ironbridge = { path = "$root", features = ["tracing"] }
tracing = { version = "0.1", default-features = false, features = ["std"] }

[workspace]

$2
MANIFEST
  [ -f "$program/Cargo.lock" ] || cp Cargo.lock "$program/Cargo.lock"
  (cd "$program" && cargo build --quiet ${3:+"$3"})
  cp "$target/$folder/newcomer" "$target/newcomer-$name"
}

# run NAME: the seconds that it prints; what it says goes to $target/NAME.log.
run() {
  "$target/newcomer-$1" assets/tiny-rustbook-q8_0.gguf 2>"$target/$1.log" || { cat "$target/$1.log" >&2 && exit 1; }
}
least() { printf '%s\n' "$@" | sort -g | head -n 1; }

build plain ''
plain=$(run plain)
echo "dependent: 32 tokens take $plain s without the README's lines"
[ "$(grep -c 'compiled without optimization' "$target/plain.log")" = 1 ] ||
  fail 'without the lines there must be one warning' "$(cat "$target/plain.log")"
[ "${1:-}" != short ] || exit 0

build told "$told"
build release '' --release
seconds_told=() seconds_release=()
for _ in 1 2 3 4 5; do
  seconds_told+=("$(run told)") seconds_release+=("$(run release)")
done
fast=$(least "${seconds_release[@]}") lines=$(least "${seconds_told[@]}")
echo "dependent: 32 tokens take $lines s with them, and $fast s in release"
awk -v lines="$lines" -v fast="$fast" 'BEGIN { exit !(lines <= 3 * fast) }' ||
  fail "more than three times as long as in release with the README's lines"
[ ! -s "$target/told.log" ] || fail "it warns where nothing is wrong: $(cat "$target/told.log")"
