"""Lesson 5's programs: with every backend they learn the same as PyTorch and as a single process,
and they write the right files."""
import ctypes
import json
import os
import pathlib
import re

import pytest

from resumed import files
from programs import CACHE, ROOT, SANITIZED, command, runs
from training import GOLDEN, golden_id, near, repeat, train

SMALL = "--dataset synthetic --samples 64 --layers 6,5,3 --classes 3 --batch-size 4 "


def only_row(result):
    """What single_process or ddp_by_hand prints with --json."""
    assert result.status == 0, result.out + result.err
    row, = result.rows
    return row


def fingerprint_in(file):
    """The fingerprint that these programs print, of the parameters in a checkpoint. What comes
    after them, the optimizer's state, has names that begin with a letter."""
    library = ctypes.CDLL(re.search("^XXHASH_LIBRARY:.*?=(.*)", CACHE, re.M)[1])
    xxh3 = library.XXH3_64bits_withSeed
    xxh3.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64)
    xxh3.restype = ctypes.c_uint64
    content = file.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    tensors = json.loads(content[8:begin])
    parameters = [tensors[name]["data_offsets"] for name in tensors if name[0].isdigit()]
    value = 0
    for first, last in sorted(parameters):
        value = xxh3(content[begin + first:begin + last], last - first, value)
    return f"{value:016x}"


@pytest.mark.quick
def test_ddp_by_hand_trains_as_one_process_does_and_as_ddp_training_without_buckets(tmp_path):
    flags = "--json --epochs 1 --seed 3"
    alone = only_row(command(f"$BIN/single_process {flags}", limit=400))
    assert alone["test_accuracy"] > 0.9
    by_hand = {ranks: only_row(runs(ranks, f"ddp_by_hand {flags}", limit=400))
               for ranks in (1, 2, 3, 4, 8)}
    assert by_hand[1] == alone
    for ranks, row in by_hand.items():
        assert row["ranks"] == ranks and row["replicas_identical"] is True
    without_buckets = "--device cpu --first-bucket-mb 0 --bucket-cap-mb 0"
    trainer = train(4, f"{flags} {without_buckets} --checkpoint model", tmp_path, limit=400)
    assert by_hand[4]["fingerprint"] == fingerprint_in(tmp_path / "model")
    assert by_hand[4]["test_accuracy"] == trainer.final["test_accuracy"]


@pytest.mark.quick
def test_four_ranks_learn_the_digits_with_the_defaults():
    run = train(4, "", limit=300)
    assert run.final["test_accuracy"] >= 0.97
    assert run.final["replicas_identical"] is True and run.final["ranks"] == 4
    assert run.losses[0] > 2 and run.losses[-1] < 0.2
    for key in ("samples_per_second", "step_ms", "compute_ms", "comm_ms"):
        assert run.final[key] > 0


@pytest.mark.quick
@pytest.mark.parametrize("at_end", ["--check-replicas 32", "--checkpoint-every 32 --checkpoint X"])
def test_each_epoch_has_its_own_number_whatever_happens_at_its_end(at_end, tmp_path):
    out = runs(4, f"ddp_training --layers 784,4,10 --epochs 3 {at_end}", tmp_path).out
    assert re.findall(r"^  epoch (\d+)  step +(\d+)/96  loss ", out, re.M) == [
        ("1", "32"), ("2", "64"), ("3", "96")]


@pytest.mark.quick
@pytest.mark.parametrize("golden", GOLDEN, ids=golden_id)
def test_training_runs_of_pytorch_are_reproduced(golden):
    repeat(golden, "--device cpu")


def test_a_finished_run_is_not_trained_further_when_it_is_resumed(tmp_path):
    flags = f"--max-steps 12 {files('run')}"
    run = train(2, flags, tmp_path)
    before = (tmp_path / "run.st").read_bytes()
    again = train(2, f"--resume {flags}", tmp_path)
    assert again.steps == [] and again.final["steps"] == 12
    assert again.parameters == run.parameters
    assert again.final["test_accuracy"] == run.final["test_accuracy"]
    assert (tmp_path / "run.st").read_bytes() == before
    assert len((tmp_path / "run.jsonl").read_text().splitlines()) == 12


def test_the_page_on_optimizers_shows_the_losses_of_its_job_and_pytorchs():
    page = (ROOT / "05_ddp_training/advanced/optimizers.md").read_text()
    run = train(3, "--dataset synthetic " + re.search(r'\njob="(.*?)"', page, re.S)[1])
    shown = re.findall(r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", page, re.M)
    assert [int(step) for step, *_ in shown] == [*range(len(run.losses))]
    for column in (1, 2, 3):
        assert [float(row[column]) for row in shown] == near(run.losses)


def test_each_row_contains_the_learning_rate_of_its_step(tmp_path):
    job = SMALL + "--max-steps 5 --optimizer sgd --momentum 0.9 --lr 0.125 "
    assert train(2, job).rates == 5 * [0.125]
    assert train(2, job + "--scale-lr").rates == 5 * [0.25]
    assert train(3, job + "--scale-lr --warmup-steps 2").rates == [0.125, 0.25, 0.375, 0.375, 0.375]
    warm = train(1, job + "--warmup-steps 4 --metrics steps.jsonl", tmp_path)
    assert warm.rates == [0, 0.03125, 0.0625, 0.09375, 0.125]
    metrics = (tmp_path / "steps.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in metrics] == warm.steps
    # Where the rate is 0, the loss over the whole set stays the same.
    whole = SMALL + "--samples 16 --batch-size 16 --no-shuffle --max-steps 3 --warmup-steps 2"
    first, second, third = train(1, whole + " --lr 0.1 --optimizer sgd").losses
    assert first == second > third


COMMON = "--dataset synthetic --samples 96 --layers 12,9,4 --classes 4 --epochs 2 --batch-size 8 "


@pytest.fixture(scope="module")
def usual():
    return train(3, COMMON)


@pytest.mark.parametrize("flags", [
    "--backend mpi", "--algorithm naive", "--algorithm ring", "--algorithm recursive-doubling",
    "--algorithm mpi", "--overlap", "--no-overlap", "--bucket-cap-mb 0.0001 --first-bucket-mb 0",
    "--overlap --bucket-cap-mb 0", "--batch-size 4 --accumulate 2",
    "--batch-size 2 --accumulate 4 --overlap"])
def test_all_backends_algorithms_and_sizes_of_buckets_train_the_same_model(flags, usual):
    assert train(3, COMMON + flags).losses == near(usual.losses)


def test_training_on_mnists_own_files_reaches_94_percent_in_10_epochs():
    folder = pathlib.Path(os.environ.get("MNIST_DIR", ROOT.parent / "shared/data/mnist-10k"))
    if not folder.is_dir():
        pytest.skip(f"no MNIST files at {folder}")
    run = train(4, f"--dataset idx --epochs 10 --data {folder}", limit=300)
    assert run.final["test_accuracy"] >= 0.94


ONE_LAYER = "--layers 784,10 --device cpu"  # on two ranks, an epoch has 63 steps


@pytest.mark.quick
def test_each_whole_epoch_has_a_row_with_its_test_accuracy(tmp_path):
    run = train(2, f"{ONE_LAYER} --max-steps 140 --metrics m.jsonl", tmp_path)
    assert [*run.accuracies] == [0, 1] and 0.5 < run.accuracies[0] < run.accuracies[1]
    rows = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert rows[63] == {"epoch": 0, "test_accuracy": run.accuracies[0]}
    assert rows[127] == {"epoch": 1, "test_accuracy": run.accuracies[1]}
    assert [row for row in rows if "step" in row] == run.steps
    whole = train(1, f"{ONE_LAYER} --epochs 1 --json")
    assert whole.accuracies == {0: whole.final["test_accuracy"]}
    assert train(3, f"{SMALL} --epochs 2").accuracies == {}  # it has no test set


@pytest.mark.parametrize("first, lost", [
    (20, 0), (63, 0), (64, 0), (126, 0),
    (63, 1), (126, 1)])  # killed between an epoch's last step and its test
def test_a_resumed_run_has_each_epochs_accuracy_once(first, lost, tmp_path):
    job = f"ddp_training {ONE_LAYER} --checkpoint"
    runs(2, f"{job} cut --metrics cut.jsonl --max-steps {first}", tmp_path)
    saved = (tmp_path / "cut").read_bytes()
    runs(2, f"{job} whole --metrics whole.jsonl --max-steps 140", tmp_path)
    whole = (tmp_path / "whole.jsonl").read_text()

    def resumed():
        runs(2, f"{job} cut --metrics cut.jsonl --max-steps 140 --resume", tmp_path)
        return (tmp_path / "cut.jsonl").read_text()

    lines = (tmp_path / "cut.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_text("".join(lines[:len(lines) - lost]))
    assert resumed() == whole
    (tmp_path / "cut").write_bytes(saved)  # now the log has steps that are repeated
    assert resumed() == whole


def metadata_in(path):
    content = path.read_bytes()
    return json.loads(content[8:8 + int.from_bytes(content[:8], "little")])["__metadata__"]


@pytest.mark.parametrize("ranks, flags, last", [  # the last whole epoch
    (1, "--epochs 1", 0), (3, "--max-steps 50", 0), (3, "--epochs 2 --shard parameters", 1)])
def test_a_model_that_does_worse_than_guessing_is_not_verified(ranks, flags, last, tmp_path):
    job = f"ddp_training --layers 784,10 {flags} --checkpoint model --json"
    result = runs(ranks, f"{job} --lr 1e6", tmp_path, status=1)
    said = re.search("^WRONG: (the mean loss of the last whole epoch, (.*), is above the first step's, (.*), "
                     r"and above 2 ln\(10\) = 4.605: the model does worse than guessing)$", result.err, re.M)
    steps = [row for row in result.rows if "step" in row]
    losses = [row["loss"] for row in steps if row["epoch"] == last]
    assert float(said[2]) == near(sum(losses) / len(losses), 1e-3)
    assert float(said[3]) == near(steps[0]["loss"], 1e-3)
    assert metadata_in(tmp_path / "model")["warning"] == said[1]
    # Not after a part of an epoch, nor from there on, nor if the model learns.
    runs(ranks, f"{job} --lr 1e6 --max-steps 20", tmp_path)
    runs(ranks, f"{job} --lr 1e6 --max-steps 40 --resume", tmp_path)
    runs(ranks, job, tmp_path)
    assert "warning" not in metadata_in(tmp_path / "model")


def test_checkpoint_and_metrics_are_written_by_rank_0_alone(tmp_path):
    runs(4, f"ddp_training {SMALL} --epochs 2 --checkpoint-every 3 {files('run')}", tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {"run.jsonl", "run.st"}
    assert len((tmp_path / "run.jsonl").read_text().splitlines()) == 8
    content = (tmp_path / "run.st").read_bytes()
    assert b'"0.weight"' in content and b'"step":"8"' in content


# The only bucket has 111 numbers, or 444 bytes. In a ring of 3 ranks, each sends 2 (3 - 1) chunks
# of 37. In the naive algorithm, rank 0 sends all of it to ranks 1 and 2.
@pytest.mark.parametrize("flags, sent", [
    ("--algorithm ring", 592), ("--algorithm ring --overlap", 592), ("--algorithm naive", 888),
    ("--backend mpi", None)])
def test_the_traffic_of_a_step_is_counted_and_shown_next_to_the_minimum(flags, sent):
    job = "--device cpu --dataset synthetic --samples 96 --layers 8,9,3 --classes 3 --batch-size 8"
    run = train(3, f"{job} --max-steps 2 {flags}")
    assert run.final["bytes_sent_per_step"] == sent
    assert run.final["least_bytes_per_step"] == 592


@pytest.mark.parametrize("ranks, backend", [(2, "ours"), (3, "ours"), (2, "mpi")])
def test_a_pretended_link_takes_its_time_and_changes_no_number(ranks, backend):
    layers, gbits = (64, 64, 10), 0.02
    flags = (f"--device cpu --dataset synthetic --layers {','.join(map(str, layers))} "
             f"--max-steps 8 --backend {backend}")
    sent = 4 * sum(a * b + b for a, b in zip(layers, layers[1:])) * 2 * (ranks - 1) / ranks
    plain = train(ranks, flags)
    hidden, exposed = (train(ranks, f"{flags} --pretend-link {gbits} {overlap}")
                       for overlap in ("", "--no-overlap"))
    assert plain.final["pretend_link_gbits"] is None
    for run in (hidden, exposed):
        assert run.final["pretend_link_gbits"] == gbits
        assert run.final["comm_ms"] >= sent * 8 / (gbits * 1e6)
        assert run.hashes == plain.hashes
    assert exposed.final["exposed_comm_ms"] >= sent * 8 / (gbits * 1e6)
    said = runs(ranks, f"ddp_training {flags} --pretend-link {gbits}").out
    assert "on a pretended link" in said and f"hidden, as on a link of {gbits} Gbit/s" in said


def test_a_slow_pretended_link_is_not_a_hang():
    """The first layer's gradients take 5 seconds."""
    runs(2, "ddp_training --device cpu --dataset synthetic --samples 16 --layers 784,2048,10 "
         "--batch-size 8 --max-steps 1 --pretend-link 0.01 --timeout 4")


def test_by_default_another_thread_sends_only_where_each_rank_has_a_core_more(tmp_path):
    cores = len(os.sched_getaffinity(0))
    for threads in {1, max(1, cores // 2), max(1, (cores - 1) // 2)}:
        runs(2, "ddp_training --device cpu --dataset synthetic --samples 256 --max-steps 2 "
             f"--threads {threads} --trace {tmp_path}/t.json")
        rows = (tmp_path / "t.json").read_text()
        assert ('"all-reduces"' in rows) == (cores > 2 * threads), threads


PARTS = ["parameters_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes"]
ON_CPU = "ddp_training --json --device cpu --dataset synthetic "


def memory_of(ranks, flags):
    return runs(ranks, ON_CPU + flags).rows[-1]["memory"]


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("optimizer, copies", [
    ("adam", 2), ("sgd", 0), ("sgd --momentum 0.9", 1)])
def test_the_tensors_of_a_rank_take_what_a_count_by_hand_says(ranks, optimizer, copies):
    memory = memory_of(ranks, "--samples 96 --layers 20,33,5 --classes 5 --batch-size 16 "
                       f"--epochs 1 --optimizer {optimizer}")
    parameters = 4 * (33 * 20 + 33 + 5 * 33 + 5)
    # 16 rows of each layer's output, and the same amount for the gradients.
    activations = 2 * 4 * 16 * (33 + 5)
    assert [memory[part] for part in PARTS] == [
        parameters, parameters, copies * parameters, activations]
    assert memory["peak_bytes"] >= memory["before_model_bytes"]


@pytest.mark.parametrize("ranks", [1, 4])
def test_the_kernel_counts_little_more_than_the_program(ranks):
    memory = memory_of(ranks, "--samples 64 --layers 784,2048,2048,10 --batch-size 8 --max-steps 2")
    counted = sum(memory[part] for part in PARTS)
    before, peak = memory["before_model_bytes"], memory["peak_bytes"]
    assert counted > 88 << 20 and before > 1 << 20 and peak >= counted
    # The rest is for batches, the matrix library, and what MPI allocates while it runs. One more
    # copy of the gradients would take 22 MiB. A sanitizer itself uses a lot of memory.
    assert SANITIZED or peak <= before + counted + (18 << 20)
