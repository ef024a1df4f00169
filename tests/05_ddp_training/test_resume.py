"""--resume on other numbers of ranks, near the end of an epoch, and of a run that has finished. That a resumed run
ends with the same bits as an uninterrupted one is shown by test_kill.py (killed), test_stop_request.py (asked to
stop) and test_output_files.py (out of disk)."""

import pathlib

import pytest
from programs import runs, says
from resumed import files
from training import train

from disturbed import JOB, steps_in


def test_on_other_ranks_a_run_continues_at_the_same_sample(tmp_path: pathlib.Path) -> None:
    # 3001 samples make 751 per rank: 58 batches of 13, in 29 steps, of which 10 are done.
    runs(4, f"ddp_training {JOB} --max-steps 10 {files('run')}", tmp_path)
    says(
        runs(2, f"ddp_training {JOB} --epochs 1 {files('run')} --resume", tmp_path),
        "2 ranks instead of 4: different batches from here on, 52 samples per step instead of 104",
    )
    # 3001 - 1040 samples are left, which make 981 per rank: 76 batches in 38 steps.
    assert steps_in(tmp_path / "run.jsonl") == 48
    assert '{"step":47,"epoch":0,' in (tmp_path / "run.jsonl").read_text()


@pytest.mark.parametrize(
    "flags, before, steps",
    [
        # 40 samples are left after 30 of 31 steps: 10 for each of 4 ranks, which is less than a
        # batch. Two more epochs of 15 steps follow.
        ("--samples 1000 --loader-drop-last", 30, 60),
        # 2 samples are left, too few for 4 ranks. Two more epochs of one step follow.
        ("--samples 34 --drop-last", 1, 3),
    ],
)
def test_if_too_few_samples_are_left_the_next_epoch_begins(
    tmp_path: pathlib.Path, flags: str, before: int, steps: int
) -> None:
    job = f"ddp_training --json --dataset synthetic --layers 6,5,10 --batch-size 16 {flags} --epochs 3 --checkpoint x"
    runs(2, f"{job} --max-steps {before}", tmp_path)
    assert runs(4, f"{job} --resume", tmp_path).rows[-1]["steps"] == steps


def test_a_finished_run_is_not_trained_further_when_it_is_resumed(tmp_path: pathlib.Path) -> None:
    flags = f"--max-steps 12 {files('run')}"
    run = train(2, flags, tmp_path)
    before = (tmp_path / "run.st").read_bytes()
    again = train(2, f"--resume {flags}", tmp_path)
    assert again.steps == [] and again.final["steps"] == 12
    assert again.parameters == run.parameters
    assert again.final["test_accuracy"] == run.final["test_accuracy"]
    assert (tmp_path / "run.st").read_bytes() == before
    assert len((tmp_path / "run.jsonl").read_text().splitlines()) == 12
