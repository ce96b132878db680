#!/usr/bin/env bash
# Runs the tests of the kernel matrix on an NVIDIA GPU under tools of NVIDIA's compute-sanitizer: one test a process, as
# many at once as there are processors. One line tells of each.
#
#   scripts/sanitize-gpu.sh                 memcheck, racecheck and synccheck
#   scripts/sanitize-gpu.sh racecheck       one of them
#   PROGRAM=FILE scripts/sanitize-gpu.sh    with a test program that was built elsewhere; FILTER=attention picks tests
set -euo pipefail
cd "$(dirname "$0")/.."

PATH=$PATH:/usr/local/cuda/bin
command -v compute-sanitizer > /dev/null || {
  echo 'compute-sanitizer is missing: NVIDIA has it in the CUDA toolkit and as cuda-sanitizer in its packages' >&2
  exit 69
}
program=${PROGRAM:-}
if [ -z "$program" ]; then
  program=$(cargo test --test device --no-run --message-format=json |
    sed -n 's/.*"executable":"\([^"]*\/device-[^"]*\)".*/\1/p')
fi
mapfile -t tests < <("$program" --list | sed -n 's/^\(kernel_matrix::.*\): test$/\1/p' | grep -F -- "${FILTER:-}")
[ ${#tests[@]} -gt 0 ] || { echo "no test of the kernel matrix has \"${FILTER:-}\" in its name" >&2; exit 2; }

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export IRONBRIDGE_DEVICE=nvidia program logs

# compute-sanitizer ends with an error where a test has nothing for the GPU, and says so.
check() {
  local tool=$1 test=$2 log=$logs/$1-$2 start=$SECONDS result
  compute-sanitizer --tool "$tool" "$program" --exact "$test" > "$log" 2>&1 || true
  if ! grep -q '^test result: ok. 1 passed' "$log"; then
    result='THE TEST FAILED'
  elif grep -q 'terminated before first instrumented API call' "$log"; then
    result='nothing for the GPU'
  else
    result=$(sed -n 's/^=* *\(RACECHECK \)\{0,1\}\(ERROR \)\{0,1\}SUMMARY: //p' "$log")
  fi
  printf '%-10s %-60s %4d s  %s\n' "$tool" "$test" $((SECONDS - start)) "${result:-no summary}"
  case $result in
    '0 errors' | '0 hazards '* | 'nothing for the GPU') ;;
    *) tail -n 60 "$log" && return 1 ;;
  esac
}
export -f check

status=0
for tool in ${*:-memcheck racecheck synccheck}; do
  printf '%s\n' "${tests[@]}" | xargs -P "$(nproc)" -I '{}' bash -c "check $tool '{}'" || status=1
done
exit $status
