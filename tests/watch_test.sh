#!/usr/bin/env bash
# watch_test.sh BUILD ON|OFF: checks that the watch comes first in every program that uses MPI, and
# that a program without the watch does the same work but counts nothing.
set -uo pipefail
build=$1
watch=$2
failed=0
complain() { echo "$1"; failed=1; }

# The watch must come before MPI's library, because a call goes to the first library that defines
# the function.
check_order() {
  local program=$1 needed
  needed=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(lib[^]]*\)\]/\1/p' | grep -E '^lib(dist_watch|mpi)\.' | cut -d. -f1 | tr '\n' ' ')
  case "$(basename "$program")" in
    single_process | all_reduce_unwatched)
      [[ $needed != *dist_watch* ]] || complain "$program has the watch, but should not" ;;
    *) [ "$needed" = "libdist_watch libmpi " ] || complain "$program: links '$needed' in this order, not libdist_watch before libmpi" ;;
  esac
}
programs=0
for program in "$build"/bin/* "$build"/bin/broken/*; do
  [ -f "$program" ] && [ -x "$program" ] || continue
  programs=$((programs + 1))
  [ "$watch" = OFF ] || check_order "$program"
done
[ "$programs" -ge 5 ] || complain "only $programs programs in $build/bin"

# rows PROGRAM: runs PROGRAM on two ranks and prints the values that do not depend on the machine.
rows() {
  mpirun -np 2 "$1" --algorithm ring --min-bytes 64 --max-bytes 64 --iterations 2 --json |
    grep -oE '"(bytes_per_rank|messages_per_rank|peers|wrong)":[^,}]*' | sort
}
counted='"bytes_per_rank":64
"messages_per_rank":2
"peers":[1]
"wrong":0'
uncounted='"bytes_per_rank":null
"messages_per_rank":null
"peers":null
"wrong":0'
[ "$watch" = OFF ] || [ "$(rows "$build/bin/all_reduce_perf")" = "$counted" ] ||
  complain "all_reduce_perf: counted $(rows "$build/bin/all_reduce_perf")"
plain=$build/tests/all_reduce_unwatched
check_order "$plain"
[ "$(rows "$plain")" = "$uncounted" ] || complain "without the watch: $(rows "$plain")"

# A flag that needs the watch is refused, not silently ignored.
said=$(mpirun -np 2 "$plain" --strict 2>&1)
status=$?
[ $status -eq 2 ] && [[ $said == *"error: --strict: unknown flag"* ]] ||
  complain "without the watch, --strict: $status: $said"

# A run that succeeds or reports a hang leaves nothing in shared memory. The next job removes what a
# killed job leaves behind. Other jobs may run at the same time.
made_below() {  # made_below PID: the segment and the process of a child of PID that made one
  while read -r _ segment _ _ process _; do
    [ "$(ps -o ppid= -p "$process" | tr -d ' ')" != "$1" ] || echo "$segment $process"
  done < <(tail -n +2 /proc/sysvipc/shm)
}
abandoned() {  # the segments that nobody uses, and whose maker is gone
  while read -r _ segment _ _ process _ users _; do
    [ "$users" != 0 ] || [ -d "/proc/$process" ] || echo "$segment"
  done < <(tail -n +2 /proc/sysvipc/shm) | sort
}
if [ "$watch" = ON ]; then
  before=$(abandoned)
  # Rank 0 never starts MPI. Rank 1 is killed once it has made the segment, before it removes the
  # name.
  mpirun -np 2 sh -c 'test $OMPI_COMM_WORLD_RANK = 1 || exec sleep 60; exec "$0"' \
    "$build/tests/hangs" >/dev/null 2>&1 &
  made=
  while [ -z "$made" ] && kill -0 $! 2>/dev/null; do made=$(made_below $!); done
  [ -z "$made" ] || kill -9 "${made#* }"
  wait
  [ -n "$made" ] || complain "no rank has made a segment"
  mpirun -np 3 "$build/tests/hangs" --case wrong-tag --timeout 1 >/dev/null 2>&1
  left=$(comm -13 <(echo "$before") <(abandoned))
  [ -z "$left" ] || complain "segments left in shared memory: $left"
fi

[ $failed -eq 0 ] && echo "$programs programs have the watch in the right place"
exit $failed
