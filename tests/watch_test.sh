#!/usr/bin/env bash
# watch_test.sh BUILD ON|OFF: the watch is in front of MPI in every program that has MPI, and a
# program without it does the same work and counts nothing.
set -uo pipefail
build=$1
watch=$2
failed=0
complain() { echo "$1"; failed=1; }

# The watch must come before MPI's library: the first that has a name is the one that is called.
check_order() {
  local program=$1 needed
  needed=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(lib[^]]*\)\]/\1/p' | grep -E '^lib(dist_watch|mpi)\.' | cut -d. -f1 | tr '\n' ' ')
  case "$(basename "$program")" in
    single_process | all_reduce_unwatched)
      [[ $needed != *dist_watch* ]] || complain "$program has the watch, which is not for it" ;;
    *) [ "$needed" = "libdist_watch libmpi " ] || complain "$program: needs '$needed' of the watch and MPI" ;;
  esac
}
programs=0
for program in "$build"/bin/* "$build"/bin/broken/*; do
  [ -f "$program" ] && [ -x "$program" ] || continue
  programs=$((programs + 1))
  [ "$watch" = OFF ] || check_order "$program"
done
[ "$programs" -ge 5 ] || complain "only $programs programs in $build/bin"

# rows PROGRAM: what does not depend on the machine, of a run on two ranks.
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
[ "$watch" = OFF ] || [ "$(rows "$build/bin/all_reduce")" = "$counted" ] ||
  complain "all_reduce: counted $(rows "$build/bin/all_reduce")"
plain=$build/tests/all_reduce_unwatched
check_order "$plain"
[ "$(rows "$plain")" = "$uncounted" ] || complain "without the watch: $(rows "$plain")"

# What only the watch can do is refused, not left out in silence.
said=$(mpirun -np 2 "$plain" --strict 2>&1)
status=$?
[ $status -eq 2 ] && [[ $said == *"error: --strict: unknown flag"* ]] ||
  complain "without the watch, --strict: $status: $said"

# Nothing of a run that ended well, or of a hang that was reported, stays in shared memory, and what
# a killed job left behind goes with the next one.
segments() { awk 'NR > 1 { print $2 }' /proc/sysvipc/shm | sort; }
if [ "$watch" = ON ]; then
  before=$(segments)
  # Rank 0 never comes; rank 1 is killed once it has made the segment, before its name is gone.
  mpirun -np 2 sh -c 'test $OMPI_COMM_WORLD_RANK = 1 || exec sleep 60; exec "$0"' \
    "$build/tests/hangs" >/dev/null 2>&1 &
  made=
  while [ -z "$made" ] && kill -0 $! 2>/dev/null; do
    made=$(comm -13 <(echo "$before") <(segments))
  done
  [ -z "$made" ] || kill -9 "$(awk -v id="$made" '$2 == id { print $5 }' /proc/sysvipc/shm)"
  wait
  [ -n "$made" ] && [[ $(segments) == *$made* ]] || complain "a killed rank has left nothing behind"
  mpirun -np 3 "$build/tests/hangs" --case wrong-tag --timeout 1 >/dev/null 2>&1
  left=$(comm -13 <(echo "$before") <(segments))
  [ -z "$left" ] || complain "left in shared memory: $left"
fi

[ $failed -eq 0 ] && echo "$programs programs: the watch is where it belongs"
exit $failed
