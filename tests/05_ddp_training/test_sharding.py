"""--shard: each rank keeps a part, and the results are those of ordinary data parallelism."""

import itertools
import pathlib

import pytest
from programs import runs
from training import Training, assert_same_model, near, train

LEVELS = ("optimizer", "gradients", "parameters")

# Layers whose sizes no number of ranks divides, in five buckets.
PARAMETERS = 23 * 17 + 17 + 17 * 11 + 11 + 11 * 5 + 5
BUCKETS = 5
JOB = (
    "--device cpu --dataset synthetic --samples 301 --layers 23,17,11,5 --classes 5 "
    "--batch-size 8 --epochs 2 --first-bucket-mb 0.0001 --bucket-cap-mb 0.0003 "
)


@pytest.mark.parametrize(
    "ranks, optimizer",
    [
        (1, "adamw"),
        (3, "adamw"),
        (2, "sgd --lr 0.1 --momentum 0.9"),
        (7, "sgd --lr 0.1 --clip-norm 0.3"),
    ],
)
def test_the_results_are_those_of_ddp_over_the_ring_bit_for_bit(ranks: int, optimizer: str) -> None:
    job = f"{JOB} --optimizer {optimizer}"
    ddp = train(ranks, job)
    for level, overlap in itertools.product(LEVELS, ("", "--overlap")):
        run = train(ranks, f"{job} --shard {level} {overlap}")
        assert run.hashes == ddp.hashes
        assert run.losses == ddp.losses and run.norms == ddp.norms
        assert run.final["shard"] == level
        assert run.final["replicas_identical"] is (None if level == "parameters" else True)


@pytest.mark.parametrize("ranks", [2, 7])
@pytest.mark.parametrize("level", LEVELS)
def test_a_run_holds_and_sends_what_the_formulas_say(ranks: int, level: str) -> None:
    final = train(ranks, f"{JOB} --shard {level}").final
    memory = final["memory"]

    def is_part(held: int, numbers: int) -> bool:
        """A chunk of a bucket may have one number more than its share."""
        return numbers / ranks <= held / 4 <= numbers / ranks + 2 * BUCKETS

    assert is_part(memory["optimizer_bytes"], 2 * PARAMETERS)
    divided = {"gradients": level != "optimizer", "parameters": level == "parameters"}
    for kind in divided:
        held = memory[f"{kind}_bytes"]
        assert is_part(held, PARAMETERS) if divided[kind] else held == 4 * PARAMETERS
    passes = 3 if level == "parameters" else 2
    least = 4 * passes * PARAMETERS * (ranks - 1) / ranks
    assert final["least_bytes_per_step"] == near(least, 1e-6)
    assert least <= final["bytes_sent_per_step"] <= least + 4 * passes * BUCKETS


@pytest.mark.parametrize(
    "flags",
    [
        "--algorithm auto",
        "--algorithm shared-memory --overlap",
        "--accumulate 3 --overlap",
        "--accumulate 3 --clip-norm 0.3",
        "--backend mpi --clip-norm 0.3",
    ],
)
def test_with_other_carriers_or_accumulation_the_results_are_near_those_of_ddp(flags: str) -> None:
    job = f"{JOB} --optimizer sgd --lr 0.1 {flags}"
    ddp = train(3, job)
    for level in LEVELS:
        run = train(3, f"{job} --shard {level}")
        assert run.losses == near(ddp.losses, 1e-6)
        assert_same_model(run.parameters, ddp.parameters, 1e-6)


def test_a_checkpoint_is_that_of_ddp_and_any_run_can_go_on_with_it(tmp_path: pathlib.Path) -> None:
    def trained(ranks: int, file: str, flags: str = "") -> Training:
        return train(ranks, f"{JOB} --checkpoint {file} {flags}", tmp_path)

    def same_files(file: str, other: str) -> bool:
        return (tmp_path / file).read_bytes() == (tmp_path / other).read_bytes()

    half, whole = trained(3, "half", "--max-steps 11"), trained(3, "whole")
    for level, other in zip(LEVELS, [*LEVELS[1:], LEVELS[0]]):
        trained(3, level, f"--max-steps 11 --checkpoint-every 4 --shard {level}")
        assert same_files(level, "half")
        rest = trained(3, level, f"--resume --shard {other}")
        assert half.steps + rest.steps == whole.steps and rest.hashes == whole.hashes
        assert same_files(level, "whole")
    # On a different number of ranks, the batches differ.
    (tmp_path / "again").write_bytes((tmp_path / "half").read_bytes())
    ddp = trained(2, "half", "--resume")
    assert ddp.hashes != whole.hashes
    assert trained(2, "again", "--resume --shard parameters").hashes == ddp.hashes


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_all_ranks_skip_the_same_steps_and_end_if_gradients_are_never_finite(device: str) -> None:
    """The gradients soon overflow, but not in all ranks' parts in the same step."""
    job = f"ddp_training --json --optimizer sgd --lr 1e6 --max-steps 50 --device {device}"
    ddp = runs(3, job, status=1)
    # On a CPU, the host learns of the tenth skipped step during the eleventh; on a GPU, it reads
    # eight steps at a time.
    assert 10 <= sum("skipped" in row for row in ddp.rows) <= (11 if device == "cpu" else 26)
    for level in LEVELS:
        run = runs(3, f"{job} --shard {level}", status=1)
        assert "10 steps in a row had to be skipped" in run.err
        assert run.rows == ddp.rows


def test_the_test_accuracy_does_not_depend_on_who_holds_the_parameters() -> None:
    job = "--epochs 1 --max-steps 12"
    accuracy = train(7, job).final["test_accuracy"]
    assert train(7, f"{job} --shard parameters").final["test_accuracy"] == accuracy
