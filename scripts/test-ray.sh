#!/usr/bin/env bash
# The programs of examples/ray on Ray's own test cluster of three nodes, on this machine. In an environment of its own
# in target/ray.
#
#   scripts/test-ray.sh            with the debug build of the library
#   scripts/test-ray.sh short      the same without the job that is killed and the node that goes
#   scripts/test-ray.sh measure    rows per second of 1 and 2 workers (docs/SCALING.md), with the release build
#
# Exits with 69 (sysexits.h's EX_UNAVAILABLE) where pip cannot fetch Ray.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly RAY_VERSION=2.60.0
case $* in
  '' | short) folder=debug ;;
  measure) folder=release ;;
  *) echo "usage: $0 [short|measure]" >&2 && exit 2 ;;
esac
target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
python=$target/ray/bin/python
[ "$(uname -s)" = Darwin ] && built=libironbridge.dylib || built=libironbridge.so

[ -x "$python" ] || python3 -m venv "$target/ray"
"$python" -c "import cffi, numpy, ray.data, ray.serve; assert ray.__version__ == '$RAY_VERSION'" 2>/dev/null ||
  "$python" -m pip install --quiet --disable-pip-version-check cffi numpy "ray[data,serve]==$RAY_VERSION" ||
  { echo "test-ray: pip cannot install Ray $RAY_VERSION here" >&2 && exit 69; }
if [ -z "${IRONBRIDGE_LIBRARY:-}" ]; then
  if [ "$folder" = debug ]; then scripts/debug-build.sh; else cargo build --release -p ironbridge-capi; fi
fi
export IRONBRIDGE_LIBRARY=${IRONBRIDGE_LIBRARY:-$target/$folder/$built}
export PYTHONPATH=$PWD/python/src:$PWD/examples/ray PYTHONDONTWRITEBYTECODE=1
# Nothing is told to anybody, and all of the cluster's addresses are of this machine.
export RAY_USAGE_STATS_ENABLED=0 no_proxy=127.0.0.0/8,127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4
exec "$python" tests/ray/check.py assets/tiny-rustbook-q8_0.gguf "$@"
