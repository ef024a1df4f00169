#!/usr/bin/env bash
# Tests every answer of ./learn check and hint, on a separate tree, so that the reader's
# exercises and progress remain untouched. Known solutions replace the reader's. Nothing is
# compiled: a fake cmake says whether compilation would have succeeded.
# learn_check_test.sh SOURCE_DIR BUILD_DIR
set -uo pipefail
source=$1
solutions=$2/tests/solutions_03
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

mkdir -p "$tree"/{tests/exercises,tools,build/bin,path}
cp "$source/learn" "$tree/"
cp -r "$source"/tools/*.sh "$source/tools/learn" "$tree/tools/"
cp "$source/tests/exercises/judge" "$tree/tests/exercises/"
cp -r "$source"/0[1-5]_* "$tree/"
for stub in 01_send_recv/ring_shift 02_broadcast/tree_broadcast 04_distributed_sampler/my_indices \
  05_ddp_training/sync_gradients; do
  echo '  not_started();' >"$tree/${stub%/*}/exercise/${stub#*/}.hpp"
done
cat >"$tree/03_all_reduce/exercise/exercises.txt" <<'LIST'
ring_reduce_scatter base the first
ring_all_reduce base the second
LIST
# Writes the stubs as they are in a fresh clone, whatever the reader has changed.
stub() {
  for name in ring_reduce_scatter ring_all_reduce; do
    echo '  not_started();  // replace this line' >"$tree/03_all_reduce/exercise/$name.hpp"
  done
}
stub
touch "$tree/build/build.ninja"
# cache_of CHECKOUT: writes the cache of a build that was configured for CHECKOUT.
cache_of() {
  printf '%s\n' DIST_LESSON:STRING=5 DIST_TESTS:BOOL=ON "CMAKE_HOME_DIRECTORY:INTERNAL=$1" \
    "CMAKE_CACHEFILE_DIR:INTERNAL=$1/build" >"$tree/build/CMakeCache.txt"
}
cache_of "$tree"
printf '#!/bin/sh\nexit 0\n' >"$tree/path/cmake"
chmod +x "$tree/path/cmake"
export PATH=$tree/path:$PATH
unset LEARN_BUILD_DIR
cd "$tree" || exit 1

# solve EXERCISE SOLUTION: pretends that the reader has written this solution.
solve() {
  echo "  // solved" >"03_all_reduce/exercise/$1.hpp"
  printf '#!/bin/sh\nexec %s --solution %s/%s "$@"\n' "$solutions" "$1" "$2" >"build/bin/exercise_03_$1"
  chmod +x "build/bin/exercise_03_$1"
}

# expect WHAT STATUS PATTERN COMMAND...: checks the exit status, and that PATTERN matches a line
# of the output.
expect() {
  local what=$1 status=$2 pattern=$3 output got
  shift 3
  output=$("$@" </dev/null 2>&1)
  got=$?
  if [ "$got" -ne "$status" ] || ! grep -qE -- "$pattern" <<<"$output"; then
    echo "FAILED: $what: status $got (expected $status), pattern '$pattern'"; echo "$output"; failed=1
  else
    echo "ok: $what"
  fi
}

# The build folder and the launcher.
printf '#!/bin/sh\necho it runs\n' >build/bin/send_recv
chmod +x build/bin/send_recv
printf '#!/bin/sh\necho "$*" >>cmake.log\n' >path/cmake
expect "an up-to-date build is not configured" 0 '^it runs$' ./learn 1 -n 1
if grep -q -- --preset cmake.log; then echo "FAILED: it was configured again"; failed=1; fi
cache_of /elsewhere
expect "the doctor finds the build of another checkout" 1 'build cannot be used: .* /elsewhere$' ./learn doctor
expect "the build of another checkout is found out" 0 'configured anew: .* checkout /elsewhere$' ./learn 1 -n 1
grep -q -- --fresh cmake.log || { echo "FAILED: it was not configured anew"; failed=1; }
printf '\0\1garbage' >build/CMakeCache.txt
expect "a damaged cache is found out" 0 'configured anew: its CMakeCache.txt is damaged$' ./learn 1 -n 1
cache_of "$tree"
ln -s "$tree/learn" path/link
expect "a link to the launcher works" 0 '^it runs$' path/link 1 -n 1
rm .learn/lock
printf '#!/bin/sh\nuntil [ -e go ]; do sleep 0.1; done\n' >path/cmake
touch second.log; ./learn 1 -n 1 >first.log 2>&1 &
until [ -s .learn/lock ]; do sleep 0.1; done
{ ./learn 1 -n 1 2>&1; echo "status $?"; } >second.log &
for _ in {1..100}; do ! grep -q waiting second.log || break; sleep 0.1; done
touch go
wait
expect "two at once build in turn" 0 '^waiting for another ./learn, which builds send_recv$' cat second.log
expect "the second one runs, too" 0 '^status 0$' cat second.log
printf '#!/bin/sh\nexit 0\n' >path/cmake
(mkdir "it's" && cp -r learn tools "it's/" && cd "it's" &&
  expect "a path that Ninja misreads is refused" 2 '^error: the path .* move the course' ./learn 1; exit $failed) || failed=1

expect "stubs are not started" 3 '^ring_reduce_scatter +base +not started +03_all_reduce/exercise/' ./learn check 3
expect "the map counts none" 0 'everybody.s tensors .* exercises 0/2 ' ./learn
expect "the first hint" 0 '^ring_reduce_scatter, hint 1 of 4:' ./learn hint 3
expect "the second hint" 0 '^ring_reduce_scatter, hint 2 of 4:' ./learn hint 3
expect "hints by name" 0 '^ring_all_reduce, hint 1 of 3:' ./learn hint 3 ring_all_reduce

solve ring_reduce_scatter blocking-send
expect "a deadlock is explained" 1 '^ +hang: rank 0 in MPI_Send to 1 .*cycle 0 -> 1' ./learn check 3 ring_reduce_scatter
expect "the deadlock's hint is shown" 1 '^ +hint: MPI_Send may wait' ./learn check 3
solve ring_reduce_scatter reference
expect "a correct solution is done" 0 '^ring_reduce_scatter +base +done$' ./learn check 3 ring_reduce_scatter
expect "the lesson's solution is named" 3 'compare with the lesson.s own: ring_reduce_scatter in ' ./learn check 3
expect "the map counts the exercise" 0 ' exercises 1/2 ' ./learn
expect "hints continue with the next exercise" 0 '^ring_all_reduce, hint 2 of 3:' ./learn hint 3
solve ring_all_reduce own-again
expect "a wrong solution is reported" 1 '^ring_all_reduce +base +wrong: on 4 ranks, this check fails: .* \[shares\]$' ./learn check 3
solve ring_all_reduce reference
expect "all are done" 0 '^ring_all_reduce +base +done$' ./learn check 3
expect "no more hints" 0 '^lesson 3: every exercise is done' ./learn hint 3
solve ring_all_reduce mpi
expect "an exercise that no longer passes is no longer done" 1 'wrong: .*\[messages\]' ./learn check 3
expect "the map no longer counts the exercise" 0 ' exercises 1/2 ' ./learn

expect "a wrong part of the trainer is named" 1 '^ring_all_reduce: wrong: .*\[messages\]' ./learn mine
solve ring_all_reduce reference
./learn check 3 >/dev/null
printf '#!/bin/sh\necho "it trains"\n' >build/bin/my_ddp_training
chmod +x build/bin/my_ddp_training
expect "correct parts train" 0 '^it trains' ./learn mine -n 2
printf '#!/bin/sh\nexit 86\n' >build/bin/my_ddp_training
expect "a job that a part ended is wrong" 1 '^WRONG: the trainer ended with status 86' ./learn mine -n 2
expect "the map counts the parts" 0 '^1 of 5 parts of the trainer are yours' ./learn
solve ring_all_reduce mpi

printf '#!/bin/sh\necho "ring_all_reduce.hpp:3:4: error: expected"\nexit 1\n' >path/cmake
expect "a solution that does not compile is wrong" 1 'wrong: it does not compile' ./learn check 3 ring_all_reduce
expect "the compiler's message is shown" 1 'hpp:3:4: error: expected' ./learn check 3 ring_all_reduce
expect "an unknown lesson" 2 'error: check: needs a lesson' ./learn check 6
expect "an unknown exercise" 2 "error: check: lesson 3 has no exercise 'x'" ./learn check 3 x
expect "a hint for an unknown exercise" 2 "error: hint: lesson 3 has no exercise 'x'" ./learn hint 3 x
if ./learn check 3 </dev/null 2>&1 | grep -q $'\e'; then echo "FAILED: colour in a pipe"; failed=1; fi
exit $failed
