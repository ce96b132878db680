#!/usr/bin/env bash
# What the Makefile does with real models, which stay outside the repository, in a cache folder.
#
# usage: run.sh fetch [MODEL...]
#        run.sh compare PROFILE [OPTION...]
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
  program=$(command_line "$2")
  shift 2
  python3 scripts/models/fetch.py "$cache" smollm2 gemma3 reference
  "$cache/venv/bin/python" scripts/models/compare.py "$cache" "$program" "$@"
  ;;
chat)
  exec "$(command_line "$2")" chat -m "$cache/smollm2.gguf"
  ;;
*)
  sed -n 's/^# usage: *//p' "$0" >&2
  exit 2
  ;;
esac
