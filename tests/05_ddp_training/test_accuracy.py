"""The accuracy on the test set: per epoch, after a resume, on any number of ranks, and if it is a guess."""

import json
import pathlib
import re
import struct

import pytest
from programs import runs, says
from training import SMALL, near, train

ONE_LAYER = "--layers 784,10 --device cpu"  # on two ranks, an epoch has 63 steps


@pytest.mark.quick
def test_each_whole_epoch_has_a_row_with_its_test_accuracy(tmp_path: pathlib.Path) -> None:
    run = train(2, f"{ONE_LAYER} --max-steps 140 --metrics m.jsonl", tmp_path)
    assert [*run.accuracies] == [0, 1] and 0.5 < run.accuracies[0] < run.accuracies[1]
    rows = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert rows[63] == {"epoch": 0, "test_accuracy": run.accuracies[0]}
    assert rows[127] == {"epoch": 1, "test_accuracy": run.accuracies[1]}
    assert [row for row in rows if "step" in row] == run.steps
    whole = train(1, f"{ONE_LAYER} --epochs 1 --json")
    assert whole.accuracies == {0: whole.final["test_accuracy"]}
    assert train(3, f"{SMALL} --epochs 2").accuracies == {}  # it has no test set


@pytest.mark.parametrize(
    "first, lost", [(20, 0), (63, 0), (64, 0), (63, 1)]
)  # the last one is killed between an epoch's last step and its test
def test_a_resumed_run_has_each_epochs_accuracy_once(first: int, lost: int, tmp_path: pathlib.Path) -> None:
    job = f"ddp_training {ONE_LAYER} --checkpoint"
    runs(2, f"{job} cut --metrics cut.jsonl --max-steps {first}", tmp_path)
    saved = (tmp_path / "cut").read_bytes()
    runs(2, f"{job} whole --metrics whole.jsonl --max-steps 140", tmp_path)
    whole = (tmp_path / "whole.jsonl").read_text()

    def resumed() -> str:
        runs(2, f"{job} cut --metrics cut.jsonl --max-steps 140 --resume", tmp_path)
        return (tmp_path / "cut.jsonl").read_text()

    lines = (tmp_path / "cut.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_text("".join(lines[: len(lines) - lost]))
    assert resumed() == whole
    (tmp_path / "cut").write_bytes(saved)  # now the log has steps that are repeated
    assert resumed() == whole


def metadata_in(path: pathlib.Path) -> dict[str, str]:
    content = path.read_bytes()
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]


@pytest.mark.parametrize(
    "ranks, flags, last",
    [  # the last whole epoch
        (1, "--epochs 1", 0),
        (3, "--max-steps 50", 0),
        (3, "--epochs 2 --shard parameters", 1),
    ],
)
def test_a_model_that_does_worse_than_guessing_is_not_verified(
    ranks: int, flags: str, last: int, tmp_path: pathlib.Path
) -> None:
    job = f"ddp_training --layers 784,10 {flags} --checkpoint model --json"
    result = runs(ranks, f"{job} --lr 1e6", tmp_path, status=1)
    said = re.search(
        "^WRONG: (the mean loss of the last whole epoch, (.*), is above the first step's, (.*), "
        r"and above 2 ln\(10\) = 4.605: the model does worse than guessing)$",
        result.err,
        re.M,
    )
    assert said, result.err
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


# The steps that follow one with an absurd learning rate, or begin with absurd parameters, are skipped.
@pytest.mark.parametrize(
    "flags, taken, steps",
    [("--optimizer sgd --lr 1e6 --batch-size 512", "2", 8), ("--init huge --batch-size 600", "0", 7)],
)
def test_a_run_that_skipped_most_steps_is_not_verified(
    flags: str, taken: str, steps: int, tmp_path: pathlib.Path
) -> None:
    job = "ddp_training --layers 784,64,64,64,10 --device cpu --checkpoint model"
    runs(2, f"{job} --max-steps 1", tmp_path)
    path = tmp_path / "model"
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    tensors = json.loads(content[8:begin])
    text = json.dumps({name: each for name, each in tensors.items() if name[0].isdigit()}).encode()
    numbers = struct.pack("<f", 3e38) * (max(each["data_offsets"][1] for each in json.loads(text).values()) // 4)
    (tmp_path / "huge").write_bytes(struct.pack("<Q", len(text)) + text + numbers)
    result = runs(2, f"{job} --epochs 1 {flags}", tmp_path, status=1)
    said = f"only {taken} of the {steps} steps of the run were taken: training diverged"
    says(result, f"WRONG: {said}")
    assert metadata_in(path)["warning"] == said


def test_accuracy_counts_every_sample_once_on_any_number_of_ranks(tmp_path: pathlib.Path) -> None:
    final = runs(1, "ddp_training --json --max-steps 5 --checkpoint x", tmp_path).rows[-1]
    for ranks in (2, 3, 7):
        tested = runs(ranks, "ddp_training --json --evaluate --init x", tmp_path).rows[-1]
        assert tested["test_accuracy"] == final["test_accuracy"]
    # Training reports what it does with the remainder.
    says(runs(3, "ddp_training --max-steps 1"), "2667 per rank (padded)")
    says(runs(3, "ddp_training --max-steps 1 --drop-last"), "2666 per rank,")
