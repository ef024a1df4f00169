#!/usr/bin/env bash
# Tests ./learn under the conditions that users bring with them. Each command works, or ends with
# one sentence that says what to do, and with status 2. Builds lesson 1 once, in a folder with an
# unusual name, as a user without a home.
# conditions_test.sh SOURCE_DIR
set -uo pipefail
source=$1
tmp=$(mktemp -d)
trap 'chmod -R u+w "$tmp"; rm -rf "$tmp"' EXIT
chmod 755 "$tmp"
failed=0
tree="$tmp/a b \$HOME (é)"
mkdir "$tree"
cp -r "$source"/{learn,CMakeLists.txt,CMakePresets.json,cmake,common,tools} "$source"/0[1-5]_* "$tree/"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset preset LEARN_BUILD_DIR CXX CXXFLAGS CMAKE_CXX_COMPILER_LAUNCHER

# Another user without a home, if this one is root; $alone: in a network and mounts of its own.
user=(env -u HOME LANG=de_DE.UTF-8 LC_NUMERIC=de_DE.UTF-8) alone=()
if [ "$(id -u)" -eq 0 ]; then
  cp -r "$tree" "$tmp/read-only"
  chown -R 65534:65534 "$tree"
  user+=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  if unshare -m -n true 2>/dev/null; then alone=(unshare -m -n sh -c 'ip link set lo up; exec "$@"' sh); fi
else
  cp -r "$tree" "$tmp/read-only"
  chmod a-w "$tmp/read-only"
fi

# expect WHAT STATUS PATTERN COMMAND: runs COMMAND with bash in the current folder.
expect() {
  local got began=$SECONDS
  output=$(timeout 300 "${alone[@]}" "${user[@]}" bash -c "$4" </dev/null 2>&1)
  got=$?
  if [ "$got" != "$2" ] || ! grep -qaE -- "$3" <<<"$output"; then
    echo "FAILED: $1: status $got (expected $2), pattern '$3'"; echo "$output"; failed=1
  elif grep -aE 'line [0-9]+: |CMake Error|Traceback|fork: ' <<<"$output"; then
    echo "FAILED: $1: the lines above are from the shell, CMake or Python"; failed=1
  elif [ "$2" = 2 ] && [ "$(grep -cavE '^(configuring|building .*|-- CUDA.*)$' <<<"$output")" != 1 ]; then
    echo "FAILED: $1: more than one sentence"; echo "$output"; failed=1
  else
    echo "ok: $1 ($((SECONDS - began)) s)"
  fi
}
as_root() {  # the same, but as root, who may mount a file system
  local user=(env)
  expect "$@"
}

cd "$tmp/read-only" || exit 1
expect "a read-only checkout" 2 '^error: .*\.learn cannot be written; copy' './learn 1'
expect "a hint in a read-only checkout" 2 '^error: .*\.learn cannot be written; copy' './learn hint 1'
expect "the map of a read-only checkout" 0 '^next: ' './learn'
cd "$tree" || exit 1
expect "a compiler that does not exist" 2 '^error: nonesuch cannot .* unset CXX' 'CXX=nonesuch ./learn 1'
expect "flags that the compiler refuses" 2 '^error: c\+\+ with the flags --nonesuch cannot' 'CXXFLAGS=--nonesuch ./learn 1'
expect "few open files" 2 '^error: only 16 files .* ulimit -n' 'ulimit -n 16; ./learn 1'
if [ "$(id -u)" -eq 0 ]; then
  expect "few processes" 2 '^error: only 20 processes .* ulimit -u' 'ulimit -u 20; ./learn 1'
fi
if [ ${#alone[@]} -gt 0 ]; then
  as_root "a full disk" 2 '^error: the disk of .*\.learn is full' \
    'mkdir -p .learn; mount -t tmpfs -o size=64k tmpfs .learn; dd if=/dev/zero of=.learn/x bs=4k 2>/dev/null; ./learn 1'
  as_root "a disk that fills up during the build" 2 '^error: the disk of .*build is full' \
    'mkdir -p build; mount -t tmpfs -o size=1500k tmpfs build; ./learn 1'
  rm -rf build .learn
fi
expect "an interrupted build" 137 'configuring' \
  'setsid ./learn 1 & job=$!; until [ -d build/common/CMakeFiles/dist_common.dir ]; do sleep 0.2; done; kill -KILL -- -$job; { wait $job; } 2>/dev/null'
expect "without network, home or locale, in an unusual folder, twice at once" 0 '^waiting for another' \
  './learn 1 -n 2 >first & job=$!; until [ -s .learn/lock ]; do sleep 0.1; done; ./learn 1 -n 2 && wait $job && grep ^verified: first'
expect "a second run" 0 '^verified: ' \
  'SECONDS=0; ./learn 1 -n 2; echo "$SECONDS s" >&2; [ $SECONDS -le 4 ]'
expect "a link to the launcher" 0 '^verified: ' 'ln -s "$PWD/learn" tools/link; tools/link 1 -n 2'
expect "another compiler for a finished build" 0 '^verified: ' 'CXX=nonesuch CXXFLAGS=--nonesuch ./learn 1 -n 2'
cp -a . "$tmp/copy"
cd "$tmp/copy" || exit 1
echo '#error this is the copy' >>common/check.hpp
expect "a copied checkout" 0 'configured anew: it belongs to the checkout .*é' './learn 1; grep -q "#error this is the copy" .learn/build.log'
mv "$tree" "$tmp/it's"
cd "$tmp/it's" || exit 1
expect "a moved checkout" 1 'build cannot be used: it belongs to the checkout .*é' './learn doctor'
expect "a name that Ninja misreads" 2 '^error: the path .* move the course' './learn 1'
exit $failed
