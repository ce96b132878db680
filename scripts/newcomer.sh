#!/usr/bin/env bash
# What a newcomer meets: the README's first commands, as they stand there, in a bare Debian made for the purpose.
#
#   scripts/newcomer.sh SUITE... [demo|test|both] [own-compiler]    bookworm, trixie, other suites of Debian
#
# With own-compiler, CLANG names what the distribution's package clang has, and that compiles the native side. Kernels
# from Metal source need clang 16 or newer at run time, which the commands install beside it where it is older.
#
# The system has what `debootstrap --variant=minbase` installs, and make, git and Rust. It lies in a temporary folder
# (below TMPDIR), which is unmounted and removed whatever happens. The commit that is checked out is cloned into it,
# without what is not committed.
#
# Rust is this machine's own, mounted read-only, and its downloaded crates are copied: Debian's Rust is too old, and
# rustup's servers cannot be reached from every machine. The settings of cargo, apt, pip and the network are copied,
# too, so that the new system reaches what this machine reaches. CARGO_PROFILE_* counts there, too: without optimization
# the demo is built in less time and writes its text more slowly.
#
# Needs root, for chroot and mount; what is mounted is seen by this script alone (unshare). Exits with 69 (sysexits.h's
# EX_UNAVAILABLE) where the packages cannot be had, otherwise with the status of the last command that failed.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly REPOSITORY=$PWD MIRROR=${MIRROR:-http://deb.debian.org/debian}
MOUNTS=
WORK=
SYSTEM=
# Before each command: nothing, or the compiler that it takes.
SETTING=
REPORT=()
STATUS=0

say() { printf 'newcomer: %s\n' "$*"; }
fail() {
  say "$@" >&2
  exit 1
}
unavailable() {
  say "$@" >&2
  exit 69
}

# Ends what still runs of what this script started, which is all that sees its mounts. Fails when there was something.
end_processes() {
  local mounts process processes=(/proc/[0-9]*/ns/mnt) found=0
  while read -r mounts process; do
    process=${process#/proc/} process=${process%%/*}
    if [ "$mounts" = "$MOUNTS" ] && [ "$process" != $$ ] && kill -KILL "$process" 2>/dev/null; then found=1; fi
  done < <(find "${processes[@]}" -maxdepth 0 -printf '%l %p\n' 2>/dev/null)
  return "$found"
}

# The folder is emptied only when nothing runs there, and nothing of this machine is mounted in it, any more.
clean_up() {
  local mounted
  [ -n "$WORK" ] || return 0
  for _ in $(seq 50); do
    if end_processes; then break; fi
    sleep 0.1
  done
  # Those that are inside others first.
  awk -v root="$SYSTEM/" 'index($2, root) == 1 {print $2}' /proc/self/mounts | sort -r | while read -r mounted; do
    umount "$mounted" || umount --lazy "$mounted" || true
  done
  if grep -qF " $SYSTEM/" /proc/self/mounts; then
    say "something is still mounted in $WORK, so it is left there" >&2
  else
    rm -rf "$WORK"
  fi
  WORK=
}

end() {
  trap '' INT TERM HUP
  clean_up
  [ ${#REPORT[@]} = 0 ] || printf 'newcomer: %s\n' "${REPORT[@]}"
}

# Runs a command so that a signal ends this script at once, and not when the command is done.
promptly() {
  "$@" </dev/null &
  wait $!
}

make_debootstrap() {
  command -v debootstrap >/dev/null && return 0
  command -v apt-get >/dev/null || unavailable 'debootstrap is not here, and no apt to install it with'
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap; } \
    </dev/null >/dev/null || unavailable 'debootstrap is not here, and apt cannot fetch it'
}

# Only what programs need, and nothing of this machine's own devices.
make_devices() {
  local device
  mount -t tmpfs -o mode=755 dev "$SYSTEM/dev"
  for device in null:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 "$SYSTEM/dev/${device%:*}" c 1 "${device#*:}"
  done
  mknod -m 666 "$SYSTEM/dev/tty" c 5 0
  ln -s /proc/self/fd "$SYSTEM/dev/fd"
  ln -s fd/0 "$SYSTEM/dev/stdin"
  ln -s fd/1 "$SYSTEM/dev/stdout"
  ln -s fd/2 "$SYSTEM/dev/stderr"
  mkdir -m 1777 "$SYSTEM/dev/shm"
  mkdir "$SYSTEM/dev/pts"
  # The tests of `chat` open pseudo-terminals.
  mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$SYSTEM/dev/pts"
  ln -s pts/ptmx "$SYSTEM/dev/ptmx"
}

# mount_as_is FOLDER PLACE: read-only.
mount_as_is() {
  mkdir -p "$SYSTEM$2"
  mount --bind "$1" "$SYSTEM$2"
  mount -o remount,bind,ro "$SYSTEM$2"
}

make_system() {
  local suite=$1 file
  WORK=$(mktemp -d "${TMPDIR:-/tmp}/newcomer.XXXXXX")
  SYSTEM=$WORK/system
  say "making a bare $suite in $SYSTEM"
  promptly debootstrap --variant=minbase "$suite" "$SYSTEM" "$MIRROR" >"$WORK/log" 2>&1 || {
    tail -n 5 "$WORK/log" >&2
    unavailable "debootstrap cannot make $suite from $MIRROR"
  }
  # debootstrap may leave its own.
  umount "$SYSTEM/proc" 2>/dev/null || true
  mount -t proc proc "$SYSTEM/proc"
  mount -t sysfs -o ro sysfs "$SYSTEM/sys"
  make_devices

  # How this machine reaches the network.
  cp -L /etc/resolv.conf "$SYSTEM/etc/resolv.conf"
  for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
    if grep -qsiE '^[^/#]*acquire' "$file"; then cp "$file" "$SYSTEM/etc/apt/apt.conf.d/"; fi
  done
  if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
    install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$SYSTEM/etc/ssl/certs/ca-certificates.crt"
  fi
  printf 'deb %s %s main\n' "$MIRROR" "$suite" >"$SYSTEM/etc/apt/sources.list"
  inside 'export DEBIAN_FRONTEND=noninteractive; apt-get update -qq
    apt-get install -y -qq --no-install-recommends make git' >/dev/null ||
    unavailable "apt cannot fetch make and git for $suite"
}

# Cargo writes beside what it downloads: into copies of the small things, and not at all into the crates.
make_rust() {
  local cargo_home=${CARGO_HOME:-$HOME/.cargo} folder sysroot
  # What the crates of the lock file need beyond those here is fetched now, with everything that the machine has for it.
  cargo fetch --quiet --locked || unavailable 'cargo cannot fetch the crates'
  sysroot=$(rustc --print sysroot)
  [ "$sysroot" != /usr ] || fail "this machine's Rust needs its distribution's libraries; rustup's does not"
  mount_as_is "$sysroot" /usr/local/rust
  [ -x "$SYSTEM/usr/local/rust/bin/cargo" ] || fail "this machine's Rust has no cargo beside rustc"
  mkdir -p "$SYSTEM/root/.cargo/registry"
  for folder in cache index; do
    [ ! -d "$cargo_home/registry/$folder" ] || cp -r "$cargo_home/registry/$folder" "$SYSTEM/root/.cargo/registry/"
  done
  for folder in config config.toml; do
    [ ! -f "$cargo_home/$folder" ] || cp "$cargo_home/$folder" "$SYSTEM/root/.cargo/"
  done
}

# inside COMMAND: as a newcomer's shell in the new system would run it, with this machine's settings for the network.
inside() {
  local settings=() name pip='CERT|(EXTRA_)?INDEX_URL|TRUSTED_HOST|PROXY'
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    [ -z "${!name:-}" ] || settings+=("$name=${!name}")
  done
  for name in $(compgen -e | grep -E "^(CARGO_(REGISTR|SOURCE|HTTP|NET|PROFILE)|PIP_($pip)\$)" || true); do
    settings+=("$name=${!name}")
  done
  settings+=(HOME=/root USER=root TERM=dumb PATH=/usr/local/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin)
  promptly env -i "${settings[@]}" chroot "$SYSTEM" /bin/sh -ec "$1"
}

# The lines of the README's first block of commands, without their comments.
# shellcheck disable=SC2016  # the backquotes are Markdown's
commands() { sed -n '/^```sh$/,/^```$/{/^```$/q;/^```/d;s/ *#.*//;p}' README.md; }

run_commands() {
  local suite=$1 wanted=$2 command start seconds status result
  while read -r command; do
    [ "$wanted" = both ] || [ "$command" = "make $wanted" ] || continue
    say "$suite: $SETTING$command"
    start=$SECONDS status=0
    inside "cd /root/ironbridge && $SETTING$command" || status=$?
    seconds=$((SECONDS - start)) result=passed
    [ "$status" = 0 ] || result="FAILED with $status"
    result+=" in $((seconds / 60)) min $((seconds % 60)) s"
    REPORT+=("$(printf '%-9s %-10s %s' "$suite" "$SETTING$command" "$result")")
    [ "$status" = 0 ] || { STATUS=$status && break; }
  done < <(commands)
  [ ${#REPORT[@]} -gt 0 ] || fail "the README's first block has no command 'make $wanted'"
}

# With the libraries of its sanitizers, which tests link, where they are a package of their own.
take_own_compiler() {
  # shellcheck disable=SC2016  # for the shell in the new system
  inside 'export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -qq --no-install-recommends clang
    version=$(clang -dumpversion | cut -d. -f1)
    runtime=libclang-rt-$version-dev
    ! apt-cache show "$runtime" >/dev/null 2>&1 || apt-get install -y -qq --no-install-recommends "$runtime"' \
    >/dev/null ||
    unavailable "apt cannot fetch $1's own clang"
  SETTING='CLANG=clang '
  say "$1's own compiler: $(inside 'clang --version' | head -n 1)"
}

# newcomer SUITE WANTED COMPILER: from nothing to nothing.
newcomer() {
  local suite=$1 start=$SECONDS
  make_system "$suite"
  make_rust
  git clone --quiet "file://$REPOSITORY" "$SYSTEM/root/ironbridge"
  git -C "$SYSTEM/root/ironbridge" checkout --quiet --detach "$(git rev-parse HEAD)"
  [ "$3" != own-compiler ] || take_own_compiler "$suite"
  say "$suite is ready after $((SECONDS - start)) s: commit $(git rev-parse --short HEAD)"
  run_commands "$suite" "$2"
  clean_up
}

main() {
  local wanted=both compiler=tested suites=() argument suite
  local usage='which suites? scripts/newcomer.sh bookworm|trixie... [demo|test|both] [own-compiler]'
  for argument; do
    case $argument in
      demo | test | both) wanted=$argument ;;
      own-compiler) compiler=own-compiler ;;
      -* | '') fail "$usage" ;;
      *) suites+=("$argument") ;;
    esac
  done
  [ ${#suites[@]} -gt 0 ] || fail "$usage"
  [ "$(uname -s)" = Linux ] || fail 'a new system can be made on Linux only'
  [ "$(id -u)" = 0 ] || fail "not root; as root, run: $0 $*"
  command -v cargo >/dev/null || fail 'Rust is not here: https://rustup.rs'
  [ -n "${NEWCOMER_UNSHARED:-}" ] || NEWCOMER_UNSHARED=1 exec unshare --mount -- "$REPOSITORY/scripts/newcomer.sh" "$@"
  MOUNTS=$(readlink /proc/self/ns/mnt)
  trap end EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  make_debootstrap
  for suite in "${suites[@]}"; do
    newcomer "$suite" "$wanted" "$compiler"
  done
  exit "$STATUS"
}

main "$@"
