"""A run that is asked to stop saves its state, exits with 75, and continues bit for bit."""

import os
import pathlib
import random
import re
import signal
import time
from collections.abc import Callable

import pytest
from programs import runs
from resumed import check_that_it_goes_on, files

from disturbed import LONG, disturbed, steps_in


def ask_mpirun(mpirun: int, _: list[int]) -> None:
    os.kill(mpirun, signal.SIGUSR1)  # mpirun passes it on


def ask_the_last(_: int, ranks: list[int]) -> None:
    os.kill(ranks[-1], signal.SIGTERM)


@pytest.mark.parametrize("ask, flags", [(ask_mpirun, ""), (ask_the_last, ""), (ask_mpirun, "--pretend-link 0.1")])
def test_a_run_asked_to_stop_exits_with_75_and_continues(
    tmp_path: pathlib.Path, ask: Callable[[int, list[int]], None], flags: str
) -> None:
    stopped = disturbed(tmp_path, 3, f"{LONG} {files('cut')} --json {flags}", 20, ask)
    assert stopped.status == 75, stopped.err
    row = stopped.rows[-1]
    assert row["stopped"] is True and row["steps"] == steps_in(tmp_path / "cut.jsonl")
    check_that_it_goes_on(tmp_path, 3, LONG)


def test_without_a_checkpoint_a_request_to_stop_ends_the_run(tmp_path: pathlib.Path) -> None:
    """The run could not be resumed, so the signal ends it as it would end any other program."""
    ended = disturbed(tmp_path, 3, f"{LONG} --metrics cut.jsonl", 20, ask_the_last)
    assert ended.status not in (0, 75)


def blocks_signals(rank: int) -> int:
    """Whether a rank holds back SIGUSR1, which it does before it calls MPI_Init."""
    mask = re.search(r"^SigBlk:\s*(\w+)", pathlib.Path(f"/proc/{rank}/status").read_text(), re.M)
    assert mask
    return int(mask[1], 16) >> (signal.SIGUSR1 - 1) & 1


@pytest.mark.parametrize("layers", ["784,10", "784,32,10", "784,512,512,512,10"])
def test_a_request_to_stop_may_come_early_and_often(tmp_path: pathlib.Path, layers: str) -> None:
    """Signals arrive in MPI_Init, while data are read, in the first step, or in mid-epoch."""
    chance = random.Random(layers)
    job = f"ddp_training --layers {layers}"

    def all_hold_signals(_: int, ranks: list[int]) -> bool:
        return len(ranks) == 4 and all(map(blocks_signals, ranks))

    for times in (30, 1, 30):

        def ask_often(mpirun: int, ranks: list[int], times: int = times) -> None:
            time.sleep(chance.uniform(0, 0.7))
            for _ in range(times):
                os.kill(mpirun, signal.SIGUSR1)

        stopped = disturbed(
            tmp_path, 4, f"--epochs 100000 --layers {layers} {files('cut')}", all_hold_signals, ask_often
        )
        assert stopped.status == 75, stopped.err
        # The next steps equal those of a run that was never stopped.
        steps = steps_in(tmp_path / "cut.jsonl") + 2
        resumed = runs(4, f"{job} --max-steps {steps} {files('cut')} --resume --json", tmp_path)
        assert sum("step" in row for row in resumed.rows) == 2
        runs(4, f"{job} --max-steps {steps} --metrics whole.jsonl", tmp_path)
        assert (tmp_path / "cut.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
        for path in tmp_path.iterdir():
            path.unlink()
