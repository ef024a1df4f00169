#!/usr/bin/env bash
# Builds lessons 1 and 5 in another Debian, as its reader would, with warnings as errors, and runs both:
#   [CXX=clang++] tests/other_debian.sh SUITE FOLDER [PACKAGE...]
# The bare system is made in FOLDER by debootstrap, and kept; ./learn installs what it needs there. A folder
# that this script has not made is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."
refuse() {
  echo "error: $1; type tests/other_debian.sh SUITE FOLDER [PACKAGE...]" >&2
  exit 2
}
[ $# -ge 2 ] || refuse "a suite, such as trixie, and a folder are needed"
suite=$1 root=$2
shift 2
made=$root/made-by-other_debian.sh
[ ! -e "$root" ] || [ -e "$made" ] || refuse "$root is there, and not made by this script"
[ "$(id -u)" -eq 0 ] || refuse "only root can make a system"

if [ ! -e "$root" ]; then
  mkdir -p "$(dirname "$root")"
  part=$(mktemp -d "$root.XXXXXX")  # which stays if something fails
  chmod 755 "$part"
  debootstrap --variant=minbase "$suite" "$part" >"$part.log" 2>&1 || {
    tail -n 5 "$part.log" >&2
    exit 1
  }
  mv "$part" "$root"
  touch "$made"
fi
rm -rf "$root/course"
mkdir "$root/course"
git -c safe.directory="$PWD" ls-files -z | tar --create --null --files-from=- | tar --extract --directory="$root/course"

# The ranks need /proc and shared memory, which end with this command.
export root CXX=${CXX:-} CXXFLAGS=${CXXFLAGS:-} packages="$*"
exec unshare --mount --pid --fork bash -euo pipefail -c '
  mount -t proc proc "$root/proc"
  mount -t sysfs sysfs "$root/sys"
  mount -t tmpfs tmpfs "$root/dev/shm"
  there() {
    chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DIST_WERROR=ON \
      ${CXX:+CXX="$CXX"} ${CXXFLAGS:+CXXFLAGS="$CXXFLAGS"} "$@"
  }
  if [ "$packages" ]; then there sh -c "apt-get -qq update && apt-get -qq install -y $packages" >/dev/null; fi
  there /course/learn 1 -n 2
  there /course/learn 5 -n 2 -- --max-steps 20
'
