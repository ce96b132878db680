#!/usr/bin/env bash
# The first hour on a Mac: what ironbridge does there, in one report file to attach to an issue. It asks nothing.
#
#   scripts/first-hour-on-a-mac.sh [short|kernels]    the report is ironbridge-report-DATE.tar.gz beside README.md
#
# The steps stand in an order in which each explains the next: the machine, the devices, Apple's compiler over every
# kernel, the tests on the processor and on the GPU under Metal's debug layer, stress, soak and speed. A step that fails
# does not end the others. Each has a limit of time; all of them take less than an hour.
#
# What it builds lies in a temporary folder, which is removed, or in CARGO_TARGET_DIR where that is set. `short` runs a
# part of each step, without optimized builds; `kernels` runs Apple's compiler and nothing else. Where there is no Mac the steps for Apple's tools say so.
set -uo pipefail
cd "$(dirname "$0")/.."

readonly FORM=${1:-full}
case $FORM in full | short | kernels) ;; *) sed -n '2,4p' "$0" >&2 && exit 2 ;; esac
WORK=$(mktemp -d "${TMPDIR:-/tmp}/ironbridge-hour.XXXXXX") || exit
trap 'rm -rf "$WORK"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
readonly REPORT=$WORK/report START=$SECONDS
mkdir "$REPORT"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$WORK/target} CARGO_TERM_COLOR=never CARGO_TERM_PROGRESS_WHEN=never
number=0
failed=0

if [ "$(uname -s)" = Darwin ]; then IS_MAC=1 DEVICES=(cpu metal); else IS_MAC= DEVICES=(cpu); fi
if [ "$FORM" = short ]; then
  PROFILE=dev ROUNDS=20 MATMULS=20000 MINUTES=5 TOKENS=8
else
  PROFILE=release ROUNDS=200 MATMULS=200000 MINUTES=20 TOKENS=128
fi
FOLDER=$PROFILE
[ "$PROFILE" != dev ] || FOLDER=debug
IRONBRIDGE=$CARGO_TARGET_DIR/$FOLDER/ironbridge
MODEL=assets/tiny-rustbook-q8_0.gguf

# step NAME COMMAND…: into a file of its own, for at most MINUTES.
step() {
  local name=$1 began=$SECONDS status=0 log
  shift
  number=$((number + 1))
  log=$REPORT/$(printf '%02d-%s.txt' "$number" "$name")
  # macOS has no `timeout`.
  perl -e 'alarm shift; exec @ARGV or die "$ARGV[0]: $!\n"' $((MINUTES * 60)) "$@" >"$log" 2>&1 </dev/null || status=$?
  [ "$status" = 0 ] || failed=$((failed + 1))
  printf '%-28s %-10s %4d s\n' "$name" "$([ "$status" = 0 ] && echo ok || echo "status $status")" \
    $((SECONDS - began)) | tee -a "$REPORT/00-summary.txt"
}

# not_here NAME REASON
not_here() {
  number=$((number + 1))
  printf '%-28s %s\n' "$1" "not run: $2" | tee -a "$REPORT/00-summary.txt"
}

# Without what tells one machine from another of its kind.
machine() {
  uname -srm
  git log -1 --format='ironbridge %h of %cs'
  rustc --version
  if [ "$IS_MAC" ]; then
    sw_vers
    system_profiler SPHardwareDataType SPDisplaysDataType | grep -viE 'serial|u[ud]id|user name|computer name'
    xcodebuild -version
    xcrun clang --version
  else
    grep -m 1 'model name' /proc/cpuinfo
  fi
}

# Apple's compiler over every kernel, in each version of the language that it has. The sources are those that a Mac's
# driver compiles at run time.
apples_compiler() {
  local standard source status=0 compiled=0
  for standard in metal3.0 metal3.1 metal3.2 metal4.0; do
    if ! echo 'kernel void k() {}' | xcrun -sdk macosx metal -std=$standard -x metal -c - -o /dev/null 2>/dev/null; then
      echo "$standard: this Xcode does not have it"
      continue
    fi
    for source in native/kernels/*.metal native/kernels/*/*.metal; do
      [ -f "$source" ] || continue
      xcrun -sdk macosx metal -std=$standard -Wall -Werror -I native/kernels -c "$source" -o /dev/null || {
        echo "$standard: $source was refused"
        status=1
      }
    done
    echo "$standard: done"
    compiled=$((compiled + 1))
  done
  [ "$compiled" -gt 0 ] || { echo "no version of Metal's language can be compiled here" && return 1; }
  return $status
}

# On a GPU the suites of operations and models, on the processor all.
tests_on() {
  local suites=(--features cli,pull,tracing --no-fail-fast)
  [ "$1" != metal ] || suites+=(--test facade --test c_abi --test device --test llama)
  [ "$FORM" != short ] || suites+=(--test facade -- ops:: gpus::)
  if [ "$1" = metal ]; then export MTL_DEBUG_LAYER=1 MTL_SHADER_VALIDATION=1; fi
  IRONBRIDGE_DEVICE=$1 cargo test "${suites[@]}"
}

if [ "$FORM" = kernels ]; then
  apples_compiler
  exit
fi

build() {
  if [ "$PROFILE" = dev ]; then
    scripts/debug-build.sh --example soak
  else
    cargo build --profile "$PROFILE" --features cli,pull,tracing --bin ironbridge --example soak
  fi
}
devices() { "$IRONBRIDGE" devices && "$IRONBRIDGE" doctor --seconds 1; }
writes() { "$IRONBRIDGE" generate -m "$MODEL" -p 'Ownership is' -n 32 --temp 0 --device "$1"; }
stress() { "$IRONBRIDGE" stress qkv --rounds "$ROUNDS" --device "$1"; }
soak() { mkdir -p "$WORK/soak-$1" && IRONBRIDGE_DEVICE=$1 "$CARGO_TARGET_DIR/$FOLDER/examples/soak" "$MATMULS" "$WORK/soak-$1"; }
speed() { "$IRONBRIDGE" bench -m "$MODEL" -p 15,128 -n "$TOKENS" --device "$1"; }
export -f machine apples_compiler tests_on build devices writes stress soak speed
export IS_MAC FORM PROFILE FOLDER IRONBRIDGE MODEL ROUNDS MATMULS TOKENS WORK

run() {
  local name=$1
  shift
  step "$name" bash -c '"$@"' bash "$@"
}

run machine machine
if [ "$IS_MAC" ]; then run apples-compiler apples_compiler; else not_here apples-compiler 'this is not a Mac'; fi
run build build
run devices devices
for device in "${DEVICES[@]}"; do
  run "writes-on-$device" writes "$device"
  run "tests-on-$device" tests_on "$device"
  run "stress-on-$device" stress "$device"
  run "soak-on-$device" soak "$device"
  run "speed-on-$device" speed "$device"
done
[ "$IS_MAC" ] || not_here metal 'this is not a Mac'
printf '%d of %d steps failed, %d s\n' "$failed" "$number" $((SECONDS - START)) | tee -a "$REPORT/00-summary.txt"

cp -R "$WORK"/soak-* "$REPORT" 2>/dev/null
archive=ironbridge-report-$(date +%Y-%m-%d-%H%M%S).tar.gz
tar -czf "$archive" -C "$WORK" report && echo "The report is $archive: please attach it to an issue."
[ "$failed" = 0 ]
