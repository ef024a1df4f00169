"""A rank that is stopped is named; if mpirun is, nobody is blamed."""

import os
import pathlib
import re
import signal
import time

import pytest
from programs import says

from disturbed import LONG, disturbed

METRICS = "--metrics cut.jsonl"


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("flags", ["", "--backend ours --pretend-link 1"])
def test_a_stopped_rank_is_named(tmp_path: pathlib.Path, flags: str, ranks: int) -> None:
    result = disturbed(
        tmp_path, ranks, f"{LONG} --timeout 2 {METRICS} {flags}", 10, lambda _, all: os.kill(all[-1], signal.SIGSTOP)
    )
    assert result.status == 86
    says(result, f"hang: rank {ranks - 1} is stopped (SIGSTOP)")
    # The signal comes at a random moment, so the others may be waiting in either of the step's
    # two collectives. With NCCL, they wait for their GPUs, perhaps in the loader.
    assert re.search(r" of (all_reduce|mean of the loss) #|in a wait for its GPU", result.err), result.err


def test_if_mpirun_is_stopped_no_rank_is_blamed(tmp_path: pathlib.Path) -> None:
    def stop_for_a_while(launcher: int, _: list[int]) -> None:
        os.kill(launcher, signal.SIGSTOP)
        time.sleep(5)  # longer than the limit in which something has to move
        os.kill(launcher, signal.SIGCONT)

    # With --json, the ranks print more than fits into mpirun's pipe, and wait for mpirun.
    result = disturbed(tmp_path, 2, f"{LONG} --json --max-steps 2000 --timeout 2 {METRICS}", 10, stop_for_a_while)
    assert result.status == 0 and "hang:" not in result.err, result.err
