#!/usr/bin/env bash
# Runs ./learn bench with tiny sizes and checks that every table has the promised columns and rows.
# bench_test.sh SOURCE_DIR BUILD_DIR
set -uo pipefail
root=$1
export LEARN_BUILD_DIR=$2
export PYTHON=no-such-python  # the peers start slowly, and may not be installed
learn=$root/learn
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
failed=0

command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 0; }

# bench WORDS...: runs a benchmark, which must succeed.
bench() {
  local output
  if output=$("$learn" bench "$@" --output "$results" </dev/null 2>&1); then
    echo "ok: bench $*"
  else
    echo "FAILED: bench $*: exit status $?"; echo "$output"; failed=1
  fi
}
# has FILE PATTERN: a line of FILE must match PATTERN.
has() {
  grep -qE -- "$2" "$results/$1" && return
  echo "FAILED: no line of $1 matches '$2'"; cat "$results/$1"; failed=1
}
# refuses PATTERN WORDS...: the run must exit with status 2, print PATTERN and write no files.
refuses() {
  local pattern=$1 output got
  shift
  output=$("$learn" bench "$@" --output "$results/refused" </dev/null 2>&1)
  got=$?
  if [ "$got" -ne 2 ] || ! grep -qE -- "$pattern" <<<"$output" || [ -e "$results/refused" ]; then
    echo "FAILED: bench $*: exit status $got, expected 2 and '$pattern'"; echo "$output"; failed=1
  else
    echo "ok: bench $* is refused"
  fi
}
# json FILE EXPRESSION: EXPRESSION must be true for `d`, the content of FILE.
json() {
  python3 -c "import json, sys; d = json.load(open(sys.argv[1])); sys.exit(not ($2))" \
    "$LEARN_BUILD_DIR/bench/$1" || { echo "FAILED: $1: not true: $2"; failed=1; }
}
cell='\| *[0-9][0-9.,]* *'

bench all-reduce --ranks 2 --rounds 1 --samples 1 --min-bytes 4096 --max-bytes 16384
has all_reduce.md "^\\| 4 KiB $cell$cell"
has all_reduce.md '^## 2 ranks on '
json all_reduce.json 'any(r["name"] == "memcpy" and r["time_us"] > 0 for r in d["rows"])'

bench training --ranks 1 2 --models 16-8-4:4 20-12-10:2 --rounds 1 --seconds 0.01 --passes 1 \
  --start-ranks 2
has training.md '^## One step at 1 rank on '
has training.md "^\\| 16-8-4 \\| 4 \\| 172 $cell"
has training.md '^## One step at 2 ranks on '
has training.md '^\| layers \| compute \| exposed \| optimizer \|$'
has training.md '^\| 20-12-10( \| [0-9.e-]+ / [0-9.e-]+ = [0-9.]+){3} \|$'
has training.md '^\| layers \| on \| off \| on / off \|$'
has training.md "^\\| 16-8-4 $cell$cell\\| [0-9.]+ \\([0-9.]+ to [0-9.]+\\) \\|$"
has training.md '^\| ours \| [0-9]+\.[0-9]+ \|$'
precisions=1  # and bf16, if this machine has it
if mpirun -np 1 "$LEARN_BUILD_DIR/bin/ddp_training" --precision bf16 --device cpu --max-steps 1 \
  >/dev/null 2>&1; then precisions=2; fi
json training.json "len(d['steps']) == 10 * $precisions"
json training.json 'all(r.get("step_ms", r.get("products_ms")) > 0 for s in d["steps"] for r in s["rounds"])'

bench buckets --ranks 2 --values 0 1 --layers 16,8,4 --batch-size 2 --rounds 1 --seconds 0.01
has buckets.md "^\\| 0 \\| 4 $cell$cell"
has buckets.md "^\\| 1 \\| 1 $cell$cell"

bench batch --ranks 2 --values 1 8 --layers 16,8,4 --rounds 1 --seconds 0.01
has batch.md "^\\| 8 \\| 16 $cell$cell"

if "$root/tests/support/two_hosts.sh" --rate 1gbit true >/dev/null 2>&1; then
  bench overlap --jobs 16-8-4:2 --steps 2 --rounds 1
  has overlap.md '^## 16-8-4, 2 samples per rank$'
  has overlap.md "^\\| \`--overlap\` $cell$cell$cell$cell"
  has overlap.md '^- commands: `two_hosts.sh '
  json overlap.json 'len(d["rows"]) == 3 and all(r["rounds"][0]["step_ms"] > 0 for r in d["rows"])'

  bench hosts --sizes 65536 --rounds 1 --iterations 2
  has hosts.md '^The cable needs 0.524 ms'
  has hosts.md "^\\| hierarchical $cell\\| [01]\\.[0-9]+ $cell\\| 1.00 \\|$"
  json hosts.json 'all(r["rounds"][0]["wrong"] == 0 for r in d["rows"])'
else  # this needs root and namespaces
  refused=$("$learn" bench overlap --output "$results/refused" </dev/null 2>&1)
  grep -q '^skipped: two hosts on one machine: ' <<<"$refused" ||
    { echo "FAILED: bench overlap says: $refused"; failed=1; }
fi

# On GPUs, real or emulated.
gpu=$("$learn" bench gpu --ranks 1 --models 16-8-4:4 --rounds 1 --steps 20 \
  --output "$results" </dev/null 2>&1)
if ! grep -q '^skipped: ' <<<"$gpu"; then
  has gpu.md '^## One step, ranks: 1, microseconds$'
  has gpu.md "^\\| 16-8-4 \\| 4 $cell$cell(\\| - ){6}$cell\\| 0 \\| 0 \\|$"
  json gpu.json 'all(r["step_ms"] > 0 for s in d["steps"] for r in s["rounds"])'
elif ! grep -qE 'no CUDA|no GPU|driver|without CUDA' <<<"$gpu"; then
  echo "FAILED: bench gpu says: $gpu"; failed=1
fi

for name in all_reduce training buckets batch; do
  has $name.md '^- processor: .* cores$'
  has $name.md '^- commands: `mpirun -np '
  if grep -qF "$LEARN_BUILD_DIR" "$results/$name.md"; then
    echo "FAILED: $name.md names a folder on this machine"; failed=1
  fi
done

refuses "bench: 'speed' is not one of" speed
refuses 'unrecognized arguments: --max-bytes' --max-bytes 4096
refuses "must look like 784-512-10:64" training --models 784,512
refuses 'at least 1 rank' batch --ranks 0
refuses 'must be whole numbers' batch --values 1.5
exit $failed
