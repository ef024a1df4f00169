"""The GPT trains as its twin in PyTorch does, on any number of ranks. $PYTHON names a Python that
has PyTorch."""

import functools
import hashlib

import pytest
from programs import ROOT, runs, says
from pytorch import python_with, theirs, torchrun
from training import near

GPT = ROOT / "05_ddp_training/advanced/gpt"


def losses(ranks: int, batch_size: int, steps: int) -> list[float]:
    words = f"gpt_training --device cpu --json --max-steps {steps} --batch-size {batch_size}"
    return [row["loss"] for row in runs(ranks, words).rows if "step" in row]


@functools.cache
def twins_losses(ranks: int, batch_size: int) -> list[float]:
    start = torchrun(python_with("torch.distributed")).replace("nproc_per_node=2", f"nproc_per_node={ranks}")
    words = f"{start} {GPT}/pytorch_twin.py --max-steps 60 --batch-size {batch_size}"
    return [row["loss"] for row in theirs(words).rows]


@pytest.mark.parametrize("ranks, others", [(1, 1), (2, 2), (4, 2)])
def test_60_steps_have_pytorchs_losses(ranks: int, others: int) -> None:
    """Steps at the beginning of a warm-up are not chaotic: the last one has learnt something, but
    a rounding difference has not grown."""
    twins = twins_losses(others, 32 // others)
    ours = losses(ranks, 32 // ranks, 60)
    assert len(twins) == 60 and twins[-1] < 0.65 * twins[0]
    assert ours == near(twins)


@pytest.mark.parametrize("ranks", [3, 7])
def test_replicas_stay_equal(ranks: int) -> None:
    says(runs(ranks, "gpt_training --device cpu --max-steps 20 --batch-size 2"), "verified: ")


def test_the_text_is_the_one_whose_source_stands_beside_it() -> None:
    text = (GPT / "text/pride_and_prejudice.txt").read_bytes()
    assert hashlib.sha256(text).hexdigest() in (GPT / "text/source.txt").read_text()
    assert 300_000 < len(text) < 1_000_000
