"""ddp_training learns with its defaults, and the same with every backend, algorithm and size of buckets."""

import os
import pathlib
import re

import pytest
from programs import ROOT, runs, says
from training import Training, near, train


@pytest.mark.quick
def test_four_ranks_learn_the_digits_with_the_defaults() -> None:
    run = train(4, "", limit=300)
    assert run.final["test_accuracy"] >= 0.97
    assert run.final["replicas_identical"] is True and run.final["ranks"] == 4
    assert run.losses[0] > 2 and run.losses[-1] < 0.2
    for key in ("samples_per_second", "step_ms", "compute_ms", "comm_ms"):
        assert run.final[key] > 0


@pytest.mark.quick
@pytest.mark.parametrize("at_end", ["--check-replicas 32", "--checkpoint-every 32 --checkpoint X"])
def test_each_epoch_has_its_own_number_whatever_happens_at_its_end(at_end: str, tmp_path: pathlib.Path) -> None:
    out = runs(4, f"ddp_training --layers 784,4,10 --epochs 3 {at_end}", tmp_path).out
    assert re.findall(r"^  epoch (\d+)  step +(\d+)/96  loss ", out, re.M) == [("1", "32"), ("2", "64"), ("3", "96")]


COMMON = "--dataset synthetic --samples 96 --layers 12,9,4 --classes 4 --epochs 2 --batch-size 8 "


@pytest.fixture(scope="module")
def usual() -> Training:
    return train(3, COMMON)


@pytest.mark.parametrize(
    "flags",
    [
        "--backend mpi",
        "--algorithm naive",
        "--algorithm ring",
        "--algorithm recursive-doubling",
        "--algorithm mpi",
        "--overlap",
        "--no-overlap",
        "--bucket-cap-mb 0.0001 --first-bucket-mb 0",
        "--overlap --bucket-cap-mb 0",
        "--batch-size 4 --accumulate 2",
        "--batch-size 2 --accumulate 4 --overlap",
    ],
)
def test_all_backends_algorithms_and_sizes_of_buckets_train_the_same_model(flags: str, usual: Training) -> None:
    assert train(3, COMMON + flags).losses == near(usual.losses)


def test_the_first_lines_say_how_many_batches_are_a_step() -> None:
    says(runs(2, "ddp_training --batch-size 16 --max-steps 1"), "in batches of 2 x 16 = 32\n")
    said = runs(2, "ddp_training --batch-size 16 --accumulate 3 --max-steps 1")
    says(said, "in batches of 2 x 16 = 32, 3 to a step of 96\n")


def test_training_on_mnists_own_files_reaches_94_percent_in_10_epochs() -> None:
    folder = pathlib.Path(os.environ.get("MNIST_DIR", ROOT.parent / "shared/data/mnist-10k"))
    if not folder.is_dir():
        pytest.skip(f"no MNIST files at {folder}")
    run = train(4, f"--dataset idx --epochs 10 --data {folder}", limit=300)
    assert run.final["test_accuracy"] >= 0.94
