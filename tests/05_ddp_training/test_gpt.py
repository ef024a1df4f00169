"""The GPT trains as its twin in PyTorch does, on any number of ranks. $PYTHON names a Python that
has PyTorch."""

import functools
import hashlib
import os
import pathlib
import re
import signal

import pytest
from programs import ROOT, refused, runs, says
from pytorch import python_with, theirs, torchrun
from training import near

from disturbed import disturbed

GPT = ROOT / "05_ddp_training/advanced/gpt"


def losses(ranks: int, batch_size: int, steps: int) -> list[float]:
    words = f"gpt_training --device cpu --json --max-steps {steps} --batch-size {batch_size}"
    return [row["loss"] for row in runs(ranks, words).rows if "step" in row]


@functools.cache
def twins_losses(ranks: int, batch_size: int) -> list[float]:
    start = torchrun(python_with("torch.distributed")).replace("nproc_per_node=2", f"nproc_per_node={ranks}")
    words = f"{start} {GPT}/pytorch_twin.py --max-steps 60 --batch-size {batch_size}"
    return [row["loss"] for row in theirs(words).rows if "step" in row]


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


def test_the_page_says_what_it_and_the_benchmark_show() -> None:
    page = (GPT.parent / "gpt.md").read_text()
    text = (GPT / "text/pride_and_prejudice.txt").read_text()
    assert len(set(text)) == 75
    written = re.findall(r"tokens per second\n(.*?)\n\.\.\.", page, re.S)[0].lower()
    some = re.findall(r"[a-z]{3,}", written)
    share = sum(word in set(re.findall(r"[a-z]{3,}", text.lower())) for word in some) / len(some)
    assert round(8 * share) == 7 and "seven of eight" in page
    measured = (ROOT / "bench/results/gpt.md").read_text()
    one, two = re.findall(r"^\| \d ranks? .*\| ([\d.]+) \(", measured, re.M)
    said = " ".join(page.split())
    assert re.search(rf"\[{float(one):.1f} times as long\].* on one rank, and {float(two):.1f} times on two", said)
    hidden = dict(re.findall(r"^\| (\d+) \|.*\| (-?\d+) % \|$", measured, re.M))
    assert [*hidden] == ["64", "104", "256"]
    assert f"64 hides {hidden['64']} % of its messages' time, 104 hides {hidden['104']} %" in said
    assert f"256 hides {hidden['256']} %" in said


def test_the_text_is_the_one_whose_source_stands_beside_it() -> None:
    text = (GPT / "text/pride_and_prejudice.txt").read_bytes()
    assert hashlib.sha256(text).hexdigest() in (GPT / "text/source.txt").read_text()
    assert 300_000 < len(text) < 1_000_000


def check_that_it_goes_on(folder: pathlib.Path, ranks: int, job: str) -> None:
    """The run saved in cut.st, and one that was never disturbed, end with the same bits."""
    job = f"gpt_training --device cpu {job} --json"
    *taken, final = runs(ranks, f"{job} --checkpoint cut.st --metrics cut.jsonl --resume", folder).rows
    *steps, whole = runs(ranks, f"{job} --checkpoint whole.st --metrics whole.jsonl", folder).rows
    assert 0 < len(taken) < len(steps)
    assert final["params_sha256"] == whole["params_sha256"] and final["test_loss"] == whole["test_loss"]
    for kind in ("st", "jsonl"):
        assert (folder / f"cut.{kind}").read_bytes() == (folder / f"whole.{kind}").read_bytes()


def test_a_run_that_is_asked_to_stop_continues_to_the_bit(tmp_path: pathlib.Path) -> None:
    job = "--max-steps 150 --batch-size 2"
    files = "--checkpoint cut.st --metrics cut.jsonl"
    stop = disturbed(
        tmp_path, 3, f"{job} {files}", 30, lambda mpirun, _: os.kill(mpirun, signal.SIGUSR1), program="gpt_training"
    )
    assert stop.status == 75, stop.err
    check_that_it_goes_on(tmp_path, 3, job)


def test_a_run_that_is_killed_continues_from_its_last_checkpoint_to_the_bit(tmp_path: pathlib.Path) -> None:
    job = "--max-steps 260 --batch-size 1 --shard optimizer"
    files = "--checkpoint cut.st --metrics cut.jsonl"
    kill = disturbed(
        tmp_path, 2, f"{job} {files}", 210, lambda _, ranks: os.kill(ranks[0], signal.SIGKILL), program="gpt_training"
    )
    assert kill.status == 137, kill.err
    check_that_it_goes_on(tmp_path, 2, job)


def test_sharded_states_give_the_same_bits() -> None:
    job = "gpt_training --device cpu --json --max-steps 20 --batch-size 2"
    whole, sharded = (runs(3, f"{job} {flags}").rows[-1] for flags in ("", "--shard optimizer"))
    assert sharded["params_sha256"] == whole["params_sha256"]
    assert sharded["memory"]["optimizer_bytes"] < 0.4 * whole["memory"]["optimizer_bytes"]


def test_another_text_or_length_does_not_continue_a_run(tmp_path: pathlib.Path) -> None:
    words = "gpt_training --device cpu --batch-size 1 --checkpoint run.st"
    runs(2, f"{words} --max-steps 3", tmp_path)
    before = (tmp_path / "run.st").read_bytes()
    text = (GPT / "text/pride_and_prejudice.txt").read_text()
    (tmp_path / "other.txt").write_text(text + "The end.\n")
    refused(f"{words} --max-steps 3 --resume --text other.txt", "--resume: training data: text, ", folder=tmp_path)
    length = "--resume: schedule: a cosine of 300 steps, but run.st is from a run with a cosine of 101 steps"
    refused(f"{words} --max-steps 300 --resume", length, folder=tmp_path)
    says(runs(2, f"{words} --max-steps 3 --resume", tmp_path), "no step was left to take", "verified: ")
    assert (tmp_path / "run.st").read_bytes() == before


@pytest.mark.parametrize(
    "content, error",
    [
        ("", "--text: t.txt: has 0 characters"),
        ("x" * 60, "--text: t.txt: has 60 characters"),
        ("word " * 128, "--text: t.txt: has 640 characters, so the tenth that is kept for testing has 64, and no"),
        (None, "--text: cannot read t.txt: No such file"),
    ],
)
def test_a_text_that_is_too_short_is_refused(content: str | None, error: str, tmp_path: pathlib.Path) -> None:
    if content is not None:
        (tmp_path / "t.txt").write_text(content)
    refused("gpt_training --text t.txt --checkpoint new.st", error, folder=tmp_path)
    refused(f"gpt_training --text {'x' * 300}", "--text: cannot read xxx", folder=tmp_path)
    refused("gpt_training --text .", "--text: . is a folder", folder=tmp_path)
    assert not (tmp_path / "new.st").exists()


def test_the_shortest_text_trains(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.txt").write_text("word " * 129 + "12345")
    says(runs(3, "gpt_training --text t.txt --max-steps 30", tmp_path), "verified: ")


@pytest.mark.parametrize("flag", ["--checkpoint", "--metrics", "--trace"])
def test_the_text_is_never_an_output(flag: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.txt").write_text("word " * 200)
    (tmp_path / "link").symlink_to("t.txt")
    refused(f"gpt_training --text t.txt {flag} link", f"{flag}: link is a file that --text reads", folder=tmp_path)
    assert (tmp_path / "t.txt").read_text() == "word " * 200
