"""What the lessons' programs print. The READMEs show complete outputs on four ranks, which
tests/pages/test_readmes.py compares; here are the other numbers of ranks, the flags and the rows.
"""
import json
import re

import pytest

from programs import NO_GRACE, ROOT, command, runs, says

ALL_REDUCES = ["naive", "ring", "recursive-doubling", "rabenseifner", "ring-pipelined",
               "shared-memory", "hierarchical", "mpi", "auto"]
BROADCASTS = ["pipeline", "scatter-all-gather", "mpi"]


@pytest.mark.quick
@pytest.mark.parametrize("ranks, cycle", [(2, "cycle 0 -> 1 -> 0"), (3, "cycle 0 -> 1 -> 2 -> 0")])
def test_the_deadlock_is_reported_with_its_calls_and_its_cycle(ranks, cycle):
    result = runs(ranks, "send_recv_perf --act deadlock --timeout 2", status=86, **NO_GRACE)
    says(result, "hang: rank 0 in MPI_Send to 1 (4 MiB, tag 0); rank 1 in MPI_Send to ", cycle)


@pytest.mark.parametrize("program, counts", [
    ("send_recv", [1, 2, 7]), ("broadcast", [1, 3]), ("all_reduce", [1, 7]),
    ("all_reduce_perf", [4]),    ("distributed_sampler", [1, 2, 3, 7]),
    ("distributed_sampler --size 10 --drop-last", [1, 3, 4]),
    ("distributed_sampler --size 1000 --no-shuffle --epoch 3", [3, 7]),
    *[(f"distributed_sampler --size {size}", [1, 3, 7]) for size in (0, 1, 2)]])
def test_the_text_is_verified_and_fits_a_screen(program, counts):
    for ranks in counts:
        out = runs(ranks, program).out
        assert re.search("^verified: every ", out, re.M) and len(out.splitlines()) <= 25, out
        assert "nan" not in out  # ranks without a sample have no mean


def test_the_rows_of_send_recv():
    rows = runs(3, "send_recv --json").rows
    assert [(row["act"], row["rank"]) for row in rows] == [
        (act, rank) for act in ("message", "ring") for rank in range(3)]
    mine = [[1000 * rank + i for i in range(4)] for rank in range(3)]
    assert [row["before"] for row in rows] == mine + mine
    assert [row["after"] for row in rows] == [
        mine[0], mine[0], mine[2],
        [3000, 3003, 3006, 3009], [1000, 1002, 1004, 1006], [3000, 3003, 3006, 3009]]


@pytest.mark.parametrize("ranks", [1, 4, 7])
@pytest.mark.parametrize("algorithm", [None, *BROADCASTS])
def test_the_rows_of_broadcast(ranks, algorithm):
    root = ranks - 1
    flags = f"--algorithm {algorithm}" if algorithm else ""
    rows = [row for row in runs(ranks, f"broadcast --json --root {root} {flags}").rows if "act" in row]
    assert [(row["act"], row["rank"]) for row in rows] == [
        (act, rank) for act in ([algorithm] if algorithm else ["flat", "tree"])
        for rank in range(ranks)]
    assert all(row["correct"] for row in rows)
    assert all(row["after"] == [1000 * root + i for i in range(4)] for row in rows)


@pytest.mark.parametrize("ranks, root", [(1, 0), (3, 1), (8, 0), (7, 5)])
def test_the_messages_of_the_tree(ranks, root, tmp_path):
    flags = f"--json --algorithm tree --root {root} --trace t.json"
    rows = runs(ranks, f"broadcast {flags}", tmp_path).rows[ranks:]
    trace = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    for rank in range(ranks):  # the model goes the same way, in 144 bytes
        sent = sorted((event["ts"], event["args"]["to"]) for event in trace
                      if (event["name"], event["pid"]) == ("MPI_Send", rank) and event["args"]["bytes"] == 144)
        assert [row["to"] for row in rows if row["from"] == rank] == [to for _, to in sent]
    have, last = {root}, 0
    for row in rows:
        if row["round"] > last:
            senders, last = set(have), row["round"]
        assert row["from"] in senders and row["to"] not in have
        senders.remove(row["from"])
        have.add(row["to"])
        assert row["values"] == [1000 * root + i for i in range(4)]
    assert len(have) == ranks and last == (ranks - 1).bit_length()


def test_a_model_is_broadcast_from_any_root():
    says(runs(4, "broadcast --root 1"), "rank 3  df34bf38f82ac10b  ->  b79a0ee7666eb2e6")


@pytest.mark.parametrize("ranks, op, algorithm", [
    (1, "sum", None), (2, "max", None), (7, "avg", None),
    *[(3, "avg", name) for name in ALL_REDUCES]])
def test_the_rows_of_all_reduce(ranks, op, algorithm):
    flags = f"--op {op}" + (f" --algorithm {algorithm}" if algorithm else "")
    rows = [row for row in runs(ranks, f"all_reduce --json {flags}").rows if "act" in row]
    assert [row["act"] for row in rows] == [
        act for act in ([algorithm] if algorithm else ["naive", "ring"]) for _ in range(ranks)]
    numbers = [[1000 * rank + i for rank in range(ranks)] for i in range(4)]
    combine = {"sum": sum, "max": max, "avg": lambda each: sum(each) / ranks}[op]
    assert all(row["correct"] for row in rows)
    assert all(row["after"] == pytest.approx([combine(each) for each in numbers]) for row in rows)


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_the_messages_of_the_ring(ranks):
    rows = runs(ranks, "all_reduce --json --algorithm ring").rows[ranks:]
    everybody = "abcdefgh"[:ranks]
    tensors = [[letter] * ranks for letter in everybody]
    for place, row in enumerate(rows):
        step, rank, right = place // ranks + 1, place % ranks, (place + 1) % ranks
        assert (row["step"], row["from"], row["to"]) == (step, rank, right)
        shares, chunk = row["shares"], row["chunk"]
        assert shares == tensors[rank][chunk]
        assert row["values"] == [sum(1000 * "abcdefgh".index(share) + chunk for share in shares)]
        tensors[right][chunk] = "".join(sorted({*shares, *tensors[right][chunk]}))
    assert step == 2 * (ranks - 1) and tensors == [[everybody] * ranks] * ranks


@pytest.mark.parametrize("ranks", [1, 3, 4])
@pytest.mark.parametrize("size", [1, 2, 3, 10, 12, 1001])
def test_each_sampling_policy_counts_what_it_repeats_and_leaves_out(ranks, size):
    out = runs(ranks, f"distributed_sampler --size {size}").out
    up, down = -(-size // ranks) * ranks, size // ranks * ranks
    again = min(up - size, size)
    for policy, taken, once, repeated, never in [("pad", up, size - again, again, 0),
                                                 ("drop", down, down, 0, size - down),
                                                 ("exact", size, size, 0, 0)]:
        per_rank = r"\d+( to \d+)?"
        row = f"^ +{policy} +{taken} +{per_rank} +{once} +{repeated} +{never} "
        assert re.search(row, out, re.M), f"{row}\n{out}"


def test_the_sampler_gives_the_shards_of_ranks_that_are_not_running():
    launched = runs(3, "distributed_sampler --size 11 --json").rows
    assert len(launched) == 3
    for rank in range(3):
        alone = command("$BIN/distributed_sampler --size 11 --json --num-replicas 3 "
                        f"--rank {rank}")
        assert alone.rows == [launched[rank]]


def test_help_and_version_are_printed_once():
    text = runs(3, "send_recv_perf --help").out
    assert text.count("--act") == 1 and len(text.splitlines()) <= 25
    assert "--sampler-seed" not in runs(2, "ddp_training --help").out
    assert "--sampler-seed" in runs(2, "ddp_training --help-all").out
    version = re.search(r"project\(.* VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert runs(2, "all_reduce --version").out == f"all_reduce {version[1]}\n"


# Lesson 5's README shows steps 4 and 5 of what --explain prints. To work the numbers out by hand: the
# hidden layer passes x on unless it is negative, and the second layer turns it into (2 x_0, x_1).
# So x = (s, 2 s) gives logits (2 s, 2 s), softmax (1/2, 1/2) and loss ln 2. The gradient of the
# loss is softmax minus one-hot, divided by the batch size of two: -1/4 at the label, 1/4 elsewhere.
EXPLAINED = """\
1. parameters: each rank makes its own, then all ranks receive rank 0's
  rank 0 made  0.weight [1 0; 0 1]  0.bias [0 0]  2.weight [2 0; 0 1]  2.bias [0 0]  hash BEFORE
  rank 1 made  0.weight [2 1; 1 2]  0.bias [1 1]  2.weight [3 1; 1 2]  2.bias [1 1]  hash OTHER
  rank 0 has   0.weight [1 0; 0 1]  0.bias [0 0]  2.weight [2 0; 0 1]  2.bias [0 0]  hash BEFORE
  rank 1 has   0.weight [1 0; 0 1]  0.bias [0 0]  2.weight [2 0; 0 1]  2.bias [0 0]  hash BEFORE
2. sampler: epoch 0's order is 0 1 3 2, and the ranks take turns
  rank 0  samples 0 3
  rank 1  samples 1 2
3. forward: logits = 2.weight ReLU(0.weight x + 0.bias) + 2.bias
  rank 0  sample 0: x [1 2], label 1, logits [2 2], dloss/dlogits [0.25 -0.25]
  rank 0  sample 3: x [-1 -2], label 0, logits [0 0], dloss/dlogits [-0.25 0.25]
  rank 0  mean loss 0.693147
  rank 1  sample 1: x [2 4], label 0, logits [4 4], dloss/dlogits [-0.25 0.25]
  rank 1  sample 2: x [3 6], label 0, logits [6 6], dloss/dlogits [-0.25 0.25]
  rank 1  mean loss 0.693147
  mean over the ranks 0.693147
"""
UPDATED = """\
6. optimizer: parameter - learning rate x averaged gradient
  0.weight [1 0; 0 1] - 0.5 x [-1 -2; 0.5 1] = [1.5 1; -0.25 0.5]
  0.bias   [0 0] - 0.5 x [-0.25 0.125] = [0.125 -0.0625]
  2.weight [2 0; 0 1] - 0.5 x [-0.5 -1; 0.5 1] = [2.25 0.5; -0.25 0.5]
  2.bias   [0 0] - 0.5 x [-0.25 0.25] = [0.125 -0.125]
  rank 0 has   hash AFTER
  rank 1 has   hash AFTER
7. the same step taken by one process, with all samples in one batch
  samples 0 1 3 2, mean loss 0.693147, hash AFTER
  gradients   0.weight [-1 -2; 0.5 1]  0.bias [-0.25 0.125]  2.weight [-0.5 -1; 0.5 1]  \
2.bias [-0.25 0.25]
  parameters  0.weight [1.5 1; -0.25 0.5]  0.bias [0.125 -0.0625]  2.weight [2.25 0.5; -0.25 0.5]  \
2.bias [0.125 -0.125]
"""


def explained(flags):
    """What --explain prints below the line that names the device and the backend."""
    return runs(2, f"ddp_training --explain {flags}").out.split("\n", 1)[1]


def shown_in_the_readme():
    """The block of lesson 5's README that shows --explain: steps 4 and 5, and the last line."""
    readme = (ROOT / "05_ddp_training/README.md").read_text()
    return re.search(r"\n\.\.\.\n(4\. backward.*?)\.\.\.\n(verified.*?)```", readme, re.S).groups()


@pytest.mark.parametrize("flags", ["", "--device cpu", "--overlap", "--no-overlap", "--backend mpi",
                                   "--algorithm ring", "--algorithm naive"])
def test_the_numbers_of_explain_match_a_calculation_by_hand(flags):
    out = explained(flags)
    before, other = re.findall("made .* hash ([0-9a-f]{16})$", out, re.M)
    assert before != other
    after = re.search("has   hash ([0-9a-f]{16})$", out, re.M)[1]
    assert after != before
    steps, verdict = shown_in_the_readme()
    assert out == (EXPLAINED.replace("BEFORE", before).replace("OTHER", other) + steps
                   + UPDATED.replace("AFTER", after) + verdict)


def test_explain_prints_one_row_with_json():
    row, = runs(2, "ddp_training --explain --json").rows
    assert row["explain"] == "one step"
