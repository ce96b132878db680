#!/usr/bin/env bash
# Programs of other people over ironbridge: tinygrad's kernels against NumPy. In an environment of its own in
# target/clients, with the debug build of the library; on the device that IRONBRIDGE_DEVICE names, or the processor.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
python=$target/clients/bin/python
[ "$(uname -s)" = Darwin ] && built=libironbridge.dylib || built=libironbridge.so

[ -x "$python" ] || python3 -m venv "$target/clients"
"$python" -c 'import cffi, numpy, tinygrad' 2>/dev/null ||
  "$python" -m pip install --quiet --disable-pip-version-check cffi numpy 'tinygrad==0.14.0'
scripts/debug-build.sh
# tinygrad keeps a cache in the home folder: not of a test's.
export IRONBRIDGE_LIBRARY=${IRONBRIDGE_LIBRARY:-$target/debug/$built} PYTHONPATH=$PWD/python/src
export XDG_CACHE_HOME=$target/clients/cache PYTHONDONTWRITEBYTECODE=1
exec "$python" tests/clients/tinygrad/check.py
