#!/usr/bin/env bash
# What the Makefile does with real models, which stay outside the repository, in a cache folder.
#
# usage: run.sh fetch [MODEL...]
#        run.sh compare PROFILE [OPTION...]
#        run.sh tables FEATURES
#        run.sh bench PROFILE [OPTION...]
#        run.sh tokenizer [OPTION...]
#        run.sh chat PROFILE
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/ironbridge/models

# `dev` is the profile of the folder `debug`.
command_line() {
  local folder=$1
  [ "$folder" != dev ] || folder=debug
  echo "${CARGO_TARGET_DIR:-target}/$folder/ironbridge"
}

case $1 in
fetch)
  shift
  python3 scripts/models/fetch.py "$cache" "$@"
  ;;
compare)
  # A library of linear algebra that spins for each small product takes longer, where others compute too.
  export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
  program=$(command_line "$2")
  shift 2
  python3 scripts/models/fetch.py "$cache" smollm2 gemma3 reference
  python=$cache/venv/bin/python
  mkdir -p target/models
  "$python" scripts/models/compare.py "$cache" "$program" --out target/models/real.json "$@"
  "$python" scripts/models/both_ways.py "$program" --out target/models/both_ways.json
  "$python" scripts/models/adapters.py "$program" assets/tiny-rustbook-q8_0.gguf
  # The processor runs a GPU's kernels there, which takes minutes.
  [[ " $* " == *" --short "* ]] || "$python" scripts/models/activations.py "$program"
  ;;
tables)
  IRONBRIDGE_DIFFERENCES=$PWD/target/models/folders.json cargo test --features "$2" --test llama -- logits_are_those
  "$cache/venv/bin/python" scripts/models/tables.py target/models/{folders,real,both_ways}.json
  ;;
bench)
  program=$(command_line "$2")
  shift 2
  python3 scripts/models/fetch.py "$cache" smollm2 gemma3 reference
  "$cache/venv/bin/python" scripts/models/bench.py "$cache" "$program" "$@"
  ;;
tokenizer)
  shift
  python3 scripts/models/fetch.py "$cache" smollm2 reference
  # Of those that were built, the newest; cargo writes a list of its files beside it.
  program=$(ls -t "${CARGO_TARGET_DIR:-target}"/release/deps/tokenizer_speed-* | grep -v '\.d$' | head -1)
  "$cache/venv/bin/python" scripts/models/tokenizer_speed.py "$cache/smollm2.gguf" "$program" "$@"
  ;;
chat)
  exec "$(command_line "$2")" chat -m "$cache/smollm2.gguf"
  ;;
*)
  sed -n 's/^# usage: *//p' "$0" >&2
  exit 2
  ;;
esac
