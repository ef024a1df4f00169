#!/usr/bin/env bash
# Tests the trainer made of a reader's exercises: with the reference solutions, with none, and
# with wrong ones, each of which must be named.
# mine_test.sh SOURCE_DIR BUILD_DIR TREE, where my_trainer_of_test finds the exercises in TREE.
set -uo pipefail
source=$1 build=$2 tree=$3
failed=0
declare -A lessons=([ring_shift]=01_send_recv [tree_broadcast]=02_broadcast
  [ring_all_reduce]=03_all_reduce [my_indices]=04_distributed_sampler
  [sync_gradients]=05_ddp_training)
small="--layers 784,24,10 --max-steps 20 --timeout 3"

# use PART...: pretends that the reader has written these parts, by inserting the reference
# solutions.
use() {
  local part
  rm -rf "$tree"
  for part in "$@"; do
    mkdir -p "$tree/${lessons[$part]}/exercise"
    "$source/tests/exercises/solutions.py" reference "${lessons[$part]}" "$part" \
      >"$tree/${lessons[$part]}/exercise/$part.hpp"
  done
}

# expect WHAT STATUS PATTERN RANKS [FLAGS]: builds and runs the trainer, and checks its exit
# status and that PATTERN matches a line of its output.
expect() {
  local what=$1 status=$2 pattern=$3 ranks=$4 got
  shift 4
  if ! output=$(cmake --build "$build" --target my_trainer_of_test 2>&1); then
    got="no program"
  else
    # shellcheck disable=SC2086  # several flags
    output=$(timeout 60 mpirun -np "$ranks" "$build/tests/my_trainer_of_test" $small "$@" </dev/null 2>&1)
    got=$?
  fi
  if [ "$got" != "$status" ] || ! grep -qE -- "$pattern" <<<"$output"; then
    echo "FAILED: $what: status $got (expected $status), pattern '$pattern'"; echo "$output"; failed=1
  else
    echo "ok: $what"
  fi
}

# wrong PART OLD NEW STATUS PATTERN RANKS: replaces OLD in the reference solution with NEW, and
# expects the mistake to be found.
wrong() {
  local part=$1 file text
  use "${!lessons[@]}"
  file=$tree/${lessons[$part]}/exercise/$part.hpp
  text=$(<"$file")
  [[ $text == *"$2"* ]] || { echo "FAILED: $part does not contain '$2'"; failed=1; return; }
  printf '%s\n' "${text//"$2"/"$3"}" >"$file"
  expect "$part: $3" "$4" "$5" "$6"
}

use
expect "nothing written: all parts are ours" 0 '^ours: sync_gradients$' 2
if mpirun -np 1 "$build/bin/ddp_training" --device cpu --precision bf16 --max-steps 1 >/dev/null 2>&1; then
  expect "products in bf16" 0 '"copies_bytes":[1-9]' 2 --json --precision bf16
fi
use ring_shift tree_broadcast ring_all_reduce
# Several exercises may define helpers with the same name.
for file in "$tree"/*/exercise/*.hpp; do
  echo 'namespace dist::exercise { inline int helper() { return 1; } }' >>"$file"
done
expect "three parts" 0 '^verified: 3 of 5 parts are yours' 3
use "${!lessons[@]}"
for ranks in 1 2 3 4; do
  expect "five parts on $ranks ranks" 0 '^verified: 5 of 5 .* bit for bit$' $ranks --dataset digits
done
expect "five parts, as JSON" 0 '^\{"yours":5,"bit_for_bit":true\}$' 3 --json
mine=$output
# shellcheck disable=SC2086
ordinary=$(mpirun -np 3 "$build/bin/ddp_training" $small --json --first-bucket-mb 0 --bucket-cap-mb 0)
if python3 - "$mine" "$ordinary" <<'PY'
import json, sys
rows = [json.loads(row) for run in sys.argv[1:] for row in run.splitlines() if '"final"' in row]
mine, ordinary = (row["parameters"] for row in rows)
far = max(abs(a - b) / (abs(b) + 1e-3) for name in ordinary
          for a, b in zip(mine[name]["first8"] + [mine[name]["l2"]],
                          ordinary[name]["first8"] + [ordinary[name]["l2"]]))
assert mine.keys() == ordinary.keys() and far < 1e-6, far
assert any(mine[name]["sha256"] != ordinary[name]["sha256"] for name in ordinary)
PY
then echo "ok: many buckets agree, but not bit for bit"
else echo "FAILED: the bucketed run gives other results"; failed=1; fi
expect "no resuming" 2 '^error: --resume: ' 2 --resume --checkpoint "$tree/none"

wrong ring_shift 'comm.right()' 'comm.left()' 86 'your ring_shift' 3
wrong ring_shift 'mpi_count(in.size())' 'mpi_count(out.size())' 1 'ring_shift' 3
wrong tree_broadcast 'd < size' 'd < 1' 1 'WRONG: tree_broadcast; run ./learn check 2' 2
wrong tree_broadcast 'const int size' 'root = 0; const int size' 1 'WRONG: tree_broadcast' 3
wrong tree_broadcast 'd *= 2' 'd *= 4' 1 'WRONG: tree_broadcast' 4
wrong tree_broadcast 'seat + d < size' 'seat > size' 86 'your tree_broadcast' 2
wrong ring_all_reduce 'value *= 1.0F / static_cast<float>(size)' 'value *= 1.0F' 1 'WRONG: ring_all_reduce; run ./learn check 3' 2
wrong ring_all_reduce 'value *= 1.0F / static_cast<float>(size)' 'value /= static_cast<float>(size)' 1 'WRONG: ring_all_reduce' 3
wrong ring_all_reduce 'send_recv<float>(comm, out, comm.right(), spare' \
  'send<float>(comm, out, comm.right()); recv<float>(comm, std::span(spare)' 86 'your ring_all_reduce' 2
wrong my_indices 'place += ranks' 'place += 1' 1 'WRONG: my_indices; run ./learn check 4' 2
wrong sync_gradients 'ReduceOp::avg' 'ReduceOp::sum' 1 'WRONG: sync_gradients; run ./learn check 5' 2
wrong sync_gradients 'from : gradients' 'from : std::vector(gradients.rbegin(), gradients.rend())' 1 'WRONG: sync_gradients' 2
wrong sync_gradients 'std::copy(next, end, to.begin());' 'throw Error("oops");' 1 'your sync_gradients: oops' 2
# What a part does only in training is named, too.
late() {  # late STATEMENT STATUS PATTERN
  use "${!lessons[@]}"
  sed -i "s|#include <span>|&\n#include <unistd.h>\n#include <vector>|
    s|  MPI_CHECK(MPI_Sendrecv|  static int calls = 0;\n  if (++calls > 40 \&\& comm.rank() == 1) { $1 }\n&|" \
    "$tree/01_send_recv/exercise/ring_shift.hpp"
  expect "late in ring_shift: $1" "$2" "$3" 2
}
late 'while (getppid() > 0) {}' 86 'hang: .*your ring_shift'
late 'std::exit(0);' 1 'WRONG: your ring_shift called exit\(\)'
late '_exit(0);' 1 'WRONG: your ring_shift called _exit\(\)'
late 'MPI_Abort(MPI_COMM_WORLD, 0);' 1 'WRONG: your ring_shift called MPI_Abort'
late 'fork();' 1 'WRONG: your ring_shift called fork\(\)'
late 'std::fill_n(in.data(), 1 << 28, 0.0F);' 139 'WRONG: your ring_shift crashed'
late 'for (std::vector<char*> all;;) all.push_back(new char[1 << 28]);' 1 'WRONG: your ring_shift ended the program'
# These numbers are right, but ring_shift is never called, so it must not count as the reader's
# part.
wrong ring_all_reduce 'send_recv<float>(' 'dist::send_recv<float>(' 1 'WRONG: ring_shift never ran' 2
exit $failed
