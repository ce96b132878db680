#!/usr/bin/env bash
# What action.yml runs: `ironbridge metal check` over patterns of files. All of it comes by the environment:
#
#   FILES      patterns, one a line; ** matches folders
#   RUN        true: kernels are run, too
#   ARGUMENTS  more arguments, one a line
#   SARIF      a file for the findings
#   IRONBRIDGE the program; else the one on the path
set -euo pipefail
shopt -s globstar nullglob
IFS= # a pattern with a space stays in one piece

files=()
while read -r pattern; do
  [ -n "$pattern" ] || continue
  matched=()
  # Unquoted, so that the shell expands it.
  matched=($pattern)
  [ ${#matched[@]} -gt 0 ] || { echo "metal-action: no file matches '$pattern'" >&2 && exit 2; }
  files+=("${matched[@]}")
done <<<"${FILES:-**/*.metal}"
[ ${#files[@]} -gt 0 ] || { echo 'metal-action: FILES has no pattern' >&2 && exit 2; }

arguments=()
while read -r argument; do
  [ -z "$argument" ] || arguments+=("$argument")
done <<<"${ARGUMENTS:-}"
[ "${RUN:-false}" != true ] || arguments+=(--run)
[ -z "${SARIF:-}" ] || arguments+=(--sarif "$SARIF")

exec "${IRONBRIDGE:-ironbridge}" metal check "${arguments[@]}" -- "${files[@]}"
