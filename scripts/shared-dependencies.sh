# Sourced: a target folder of its own for a build of other settings, whose dependencies are those that the ordinary
# build has compiled. $1: its name below that build's folder. Cargo before 1.91 compiles them once more.
target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
export CARGO_BUILD_BUILD_DIR=${CARGO_BUILD_BUILD_DIR:-$target}
export CARGO_TARGET_DIR=$target/$1
