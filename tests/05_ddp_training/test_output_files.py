"""The files of --checkpoint and --metrics: who writes them, where links lead, and whom they belong to."""

import os
import pathlib
import signal
import socket

from programs import refused, runs, says
from resumed import check_that_it_goes_on, files
from training import SMALL

from disturbed import JOB, LONG, disturbed


def test_checkpoint_and_metrics_are_written_by_rank_0_alone(tmp_path: pathlib.Path) -> None:
    runs(4, f"ddp_training {SMALL} --epochs 2 --checkpoint-every 3 {files('run')}", tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {"run.jsonl", "run.st"}
    assert len((tmp_path / "run.jsonl").read_text().splitlines()) == 8
    content = (tmp_path / "run.st").read_bytes()
    assert b'"0.weight"' in content and b'"step":"8"' in content


def test_a_file_is_written_where_a_link_of_another_folder_leads(tmp_path: pathlib.Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/latest").symlink_to("first")
    runs(2, f"ddp_training {SMALL} --max-steps 1 --checkpoint runs/latest", tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["first", "latest", "runs"]
    assert (tmp_path / "runs/latest").is_symlink() and (tmp_path / "runs/first").is_file()


def test_a_run_may_replace_the_file_that_it_starts_from_and_says_so(tmp_path: pathlib.Path) -> None:
    runs(2, f"ddp_training {SMALL} --max-steps 1 --checkpoint run.st", tmp_path)
    (tmp_path / "link").symlink_to("run.st")
    job = f"ddp_training {SMALL} --max-steps 2 --init run.st"
    says(runs(2, f"{job} --checkpoint link", tmp_path), "parameters of run.st; --checkpoint replaces this file")
    assert b'"step":"2"' in (tmp_path / "run.st").read_bytes()
    assert "replaces" not in runs(2, f"{job} --checkpoint other.st", tmp_path).out


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "precious").write_text("content")
    (tmp_path / ".x.lock").symlink_to("precious")
    refused(
        f"ddp_training {SMALL} --checkpoint x",
        "--checkpoint: x: cannot be written: Too many levels of symbolic links",
        folder=tmp_path,
    )
    assert (tmp_path / "precious").read_text() == "content"


def test_a_second_job_that_writes_to_the_same_files_is_refused(tmp_path: pathlib.Path) -> None:
    def start_another(_: int, ranks: list[int]) -> None:
        for flag, name in (("--checkpoint", "st"), ("--metrics", "jsonl"), ("--trace", "json")):
            refused(
                f"ddp_training {JOB} {flag} cut.{name}",
                f"{flag}: cut.{name} is in use by {flag} of process {ranks[0]} on {socket.gethostname()}",
                folder=tmp_path,
            )
        os.kill(ranks[0], signal.SIGKILL)

    flags = f"{LONG} --checkpoint-every 3 {files('cut')} --trace cut.json"
    assert disturbed(tmp_path, 2, flags, 5, start_another).status == 137
    check_that_it_goes_on(tmp_path, 2, LONG)  # at once
