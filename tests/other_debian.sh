#!/usr/bin/env bash
# Builds lessons 1 and 5 in another Debian, as its reader would, with warnings as errors, and runs both:
#   [CXX=clang++] tests/other_debian.sh SUITE FOLDER [PACKAGE...]
# The system is made in FOLDER by debootstrap, with what the lessons need and with PACKAGEs, and is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
refuse() {
  echo "error: $1; type tests/other_debian.sh SUITE FOLDER [PACKAGE...]" >&2
  exit 2
}
[ $# -ge 2 ] || refuse "a suite, such as trixie, and a folder are needed"
suite=$1 root=$2
shift 2
[ ! -e "$root" ] || [ -d "$root/var/lib/dpkg" ] || refuse "$root is there, and not a Debian system"
[ "$(id -u)" -eq 0 ] || refuse "only root can make a system"

packages=$(awk '$1 ~ /^[1-5]$/ { print $2 }' tools/learn/packages.txt | tr '\n' ' ')
if [ ! -e "$root/ready" ]; then
  rm -rf "$root"
  mkdir -p "$(dirname "$root")"
  # shellcheck disable=SC2086 # they are many words
  debootstrap --variant=minbase --include="$(tr ' ' , <<<"$packages$*")" "$suite" "$root" >"$root.log" 2>&1 || {
    tail -n 5 "$root.log" >&2
    exit 1
  }
  touch "$root/ready"
fi
rm -rf "$root/course"
mkdir "$root/course"
git -c safe.directory="$PWD" ls-files -z | tar --create --null --files-from=- | tar --extract --directory="$root/course"

# The ranks need /proc and shared memory, which end with this command.
export root CXX=${CXX:-}
exec unshare --mount --pid --fork bash -euo pipefail -c '
  mount -t proc proc "$root/proc"
  mount -t tmpfs tmpfs "$root/dev/shm"
  learn() {
    chroot "$root" env -i HOME=/root PATH=/usr/bin:/bin ${CXX:+CXX="$CXX"} DIST_WERROR=ON /course/learn "$@"
  }
  learn 1 -n 2
  learn 5 -n 2 -- --max-steps 20
'
