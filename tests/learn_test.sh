#!/usr/bin/env bash
# Tests that ./learn does what its help says, given an existing build.
set -uo pipefail
root=$1
export LEARN_BUILD_DIR=$2
learn=$root/learn
failed=0

# expect WHAT STATUS PATTERN COMMAND...: checks the exit status, and that PATTERN matches a line
# in either output stream.
expect() {
  local what=$1 status=$2 pattern=$3 output got
  shift 3
  output=$("$@" </dev/null 2>&1)
  got=$?
  if [ "$got" -ne "$status" ]; then
    echo "FAILED: $what: exit status $got, expected $status"; echo "$output"; failed=1
  elif ! grep -qE -- "$pattern" <<<"$output"; then
    echo "FAILED: $what: no line matches '$pattern'"; echo "$output"; failed=1
  else
    echo "ok: $what"
  fi
}

expect "the map names all lessons" 0 '^  5  N processes train one model .*05_ddp_training/README.md' "$learn"
expect "the map names a next step" 0 '^next: \./learn ' "$learn"
expect "help lists the commands" 0 '^\./learn test ' "$learn" help
expect "lesson 1 runs on 4 ranks" 0 '^  rank 3 .*6000 +6004 +6008 +6012$' "$learn" 1
expect "lesson 1 runs on 3 ranks" 0 '^  rank 2 .*3000 +3003 +3006 +3009$' "$learn" 1 -n 3
expect "learn shows the plain command" 0 'mpirun -np 3 .*bin/send_recv' "$learn" 1 -n 3
expect "learn perf runs the measuring program" 0 '"act":"fit"' "$learn" perf 1 -n 2 -- --max-bytes 1024 --json
expect "flags after -- reach the program" 0 '"act":"tree"' \
  "$learn" 2 -n 2 -- --algorithm tree --json
expect "learn exits with the program's status" 2 '^error: --root: 9 is not between 0 and 1' \
  "$learn" 2 -n 2 -- --root 9
expect "flags before -- are refused" 2 'error: --json: unknown' "$learn" 1 --json
expect "a wrong number of ranks" 2 "error: -n: must be a positive number of ranks, not '0'" "$learn" 1 -n 0
expect "a missing number of ranks" 2 'error: -n: needs' "$learn" 1 -n
expect "break lists experiments" 0 '^shared-variable +ranks share memory' "$learn" break 1
expect "break runs an experiment" 0 '^verified: the symptom appeared' "$learn" break 1 shared-variable -n 2
expect "break passes flags on" 2 'error: --threads: ' "$learn" break 1 shared-variable -- --threads 0
expect "an unknown experiment" 2 "error: NAME: 'x' is not one of" "$learn" break 1 x
expect "the doctor names Open MPI" 0 '^(ok|note) +.*Open MPI' "$learn" doctor
expect "the doctor examines the packages" 0 'packages: all|apt-get install' "$learn" doctor
expect "an unknown command" 2 'error: 6: no such command' "$learn" 6
cd /
expect "learn runs from any folder" 0 'verified' "$learn" 4 -n 2

# On Ctrl-C, a terminal sends SIGINT to all processes that ./learn has started. Job control
# (set -m) puts these processes in their own process group, in which SIGINT is not ignored.
fifo=$(mktemp -u)
mkfifo "$fifo"
exec 3<>"$fifo"  # stays open, so that no process ends because its output is not read
set -m
"$learn" 5 -n 2 -- --epochs 1000 --seed 424242 >"$fifo" 2>&1 </dev/null &
job=$!
grep -q -m 1 'epoch 1 ' <&3
kill -INT -- -"$job"
wait "$job" 2>/dev/null
status=$?
set +m
if pgrep -f 'ddp_training .*--seed 424242' >/dev/null; then
  echo "FAILED: Ctrl-C leaves ranks running"; pkill -KILL -f 'ddp_training .*--seed 424242'; failed=1
elif [ "$status" -eq 0 ]; then
  echo "FAILED: Ctrl-C came too late to have an effect"; failed=1
else
  echo "ok: Ctrl-C leaves nothing running"
fi
exec 3<&-
rm -f "$fifo"
exit $failed
