#!/usr/bin/env bash
# Compares the C ABI of the headers with an older revision's, by abidiff (Debian: abigail-tools).
#
#   scripts/check-abi.sh [REVISION]    without it: the last tag vN, or where there is none, the commit that set the
#                                      present IRON_ABI_VERSION
#
# What the stable part (IRON_STABLE_ONLY) had must be there, with the same types. Functions may be added, and so may
# fields at the end of structs that begin with their size. Changes of the experimental part are listed and allowed.
#
# abidiff reads debug information, and the libraries have line tables alone. So it gets a library of empty functions,
# made of the headers' declarations; capi/tests/programs.rs holds headers and library equal.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh abi
command -v abidiff >/dev/null || { echo 'check-abi: there is no abidiff: Debian has it in abigail-tools' >&2 && exit 1; }
[ "$(git rev-parse --is-shallow-repository)" = false ] || {
  echo 'check-abi: this clone has no history; git fetch --unshallow --tags' >&2
  exit 1
}
old=${1:-$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)}
[ -n "$old" ] || old=$(git log -1 --format=%h -G'^#define IRON_ABI_VERSION' -- include/ironbridge.h)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

abi_version() { sed -n 's/^#define IRON_ABI_VERSION \([0-9]*\)u$/\1/p' "$1/ironbridge.h"; }

# library HEADERS OUTPUT [DEFINE]: every declared function, empty.
library() {
  local headers=$1 output=$2 header names=()
  shift 2
  for header in ironbridge ironbridge_memory ironbridge_llama; do
    [ "$header" = ironbridge ] || [ "$#" = 0 ] || continue # the others are experimental as a whole
    [ ! -f "$headers/$header.h" ] || names+=(-include "$headers/$header.h")
  done
  "${CC:-cc}" -E -P -I"$headers" "$@" "${names[@]}" -x c /dev/null |
    sed 's/__attribute__((visibility("default")))/@&/' |
    awk '/^@/ {inside = 1; sub(/^@/, "")} inside && /;$/ {sub(/;$/, " { __builtin_trap(); }"); inside = 0} {print}' \
      >"$output.c"
  "${CC:-cc}" -shared -fPIC -g -w -o "$output" -Wl,-soname,libironbridge.so.0 "$output.c"
}

# A struct that begins with its size may grow: a shorter one is an older caller's.
sized=$(sed -n '/^typedef struct iron_[a-z_]* {$/{s/^typedef struct \(.*\) {$/\1/;h;n;/^  size_t size;/{g;p}}' include/*.h)
cat >"$work/suppressions" <<SUPPRESSIONS
[suppress_type]
  type_kind = struct
  name_regexp = ^(${sized//$'\n'/|})$
  has_data_member_inserted_at = end
SUPPRESSIONS

# compare OLD NEW: fails on any change but what may be added.
compare() {
  abidiff --suppressions "$work/suppressions" --no-added-syms "$1" "$2"
}

mkdir "$work/old" "$work/planted"
git archive "$old" include | tar -x -C "$work/old"
library "$work/old/include" "$work/old-stable.so" -DIRON_STABLE_ONLY
library "$work/old/include" "$work/old.so"
library include "$work/new-stable.so" -DIRON_STABLE_ONLY
library include "$work/new.so"
before=$(abi_version "$work/old/include") now=$(abi_version include)
echo "check-abi: IRON_ABI_VERSION $now against $before of $old"

# What must be found: a function that is gone, a field before others, another type of an argument.
planted() {
  local what=$1 file=$2 change=$3
  rm -rf "$work/planted" && cp -r include "$work/planted"
  sed -i "$change" "$work/planted/$file"
  ! cmp -s "$work/planted/$file" "include/$file" || { echo "check-abi: nothing to change for: $what" >&2 && exit 1; }
  library "$work/planted" "$work/planted.so" -DIRON_STABLE_ONLY
  if compare "$work/new-stable.so" "$work/planted.so" >/dev/null; then
    echo "check-abi: abidiff does not see $what" >&2
    exit 1
  fi
}
planted 'a function that is gone' ironbridge.h 's/iron_device_sync(/iron_device_synchronize(/'
planted 'a field before others' ironbridge.h \
  '/^typedef struct iron_device_info {/,/^}/s/^  size_t size;.*/&\n  uint64_t planted;/'
planted 'another type of an argument' ironbridge.h 's/\(iron_buffer_read([^,]*, \)uint64_t /\1uint32_t /'

if ! compare "$work/old.so" "$work/new.so" >"$work/all"; then
  echo 'check-abi: with the experimental part:'
  cat "$work/all"
fi
status=0
compare "$work/old-stable.so" "$work/new-stable.so" >"$work/stable" || status=$?
if [ "$status" != 0 ]; then
  cat "$work/stable"
  if [ "$now" -le "$before" ]; then
    echo 'check-abi: the stable part has changed, and IRON_ABI_VERSION has not' >&2
    exit 1
  fi
fi
echo 'check-abi: passed'
