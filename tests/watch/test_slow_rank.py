"""A rank that is slower than the others is named, unless its control group's quota pauses it."""

import os
import pathlib
import re
import signal
import time

import pytest
from hosts import quota_of
from programs import HIDE_GPUS, command, hang
from watch_output import SLOW, report_of

from disturbed import disturbed

METRICS = "--metrics cut.jsonl"


def processor_ms(rank: int) -> float:
    return int(pathlib.Path(f"/proc/{rank}/schedstat").read_text().split()[0]) / 1e6


def test_the_slow_rank_is_named(tmp_path: pathlib.Path) -> None:
    """Each step takes longer than the short intervals in which the last rank may run. On a GPU, the
    host would write no metrics in time."""

    def slow_down(_: int, ranks: list[int]) -> None:
        try:
            while True:
                os.kill(ranks[-1], signal.SIGSTOP)
                time.sleep(0.1)
                before, limit = processor_ms(ranks[-1]), time.monotonic() + 0.1
                os.kill(ranks[-1], signal.SIGCONT)
                while processor_ms(ranks[-1]) < before + 2 and time.monotonic() < limit:
                    time.sleep(0.001)
        except (FileNotFoundError, ProcessLookupError):
            pass  # the run has ended

    flags = f"--json --device cpu --batch-size 128 --max-steps 15 {METRICS}"
    slow = disturbed(tmp_path, 2, flags, 1, slow_down)
    assert slow.status == 0, slow.err
    assert slow.rows[-1]["slowest_rank"] == 1 and slow.rows[-1]["slowest_ratio"] >= 1.75, slow.out


@pytest.mark.parametrize(
    "case, ranks, slow", [("slow-rank", 4, ["3"]), ("slow-rank-in-step", 2, ["1"]), ("equal-work", 4, [])]
)
def test_only_a_rank_that_works_longer_than_the_others_is_named(case: str, ranks: int, slow: list[str]) -> None:
    said = report_of(hang(ranks, f"../tests/slow_ranks --case {case}", timeout=5))
    named = [line.removeprefix(SLOW) for line in said if line.startswith(SLOW)]
    assert [line.split(",")[0] for line in named] == slow, said


def test_a_rank_is_not_blamed_for_a_quota() -> None:
    with quota_of(0.3) as start:
        # Each step is longer than the 30 ms that rank 1 may use in a period, so each is paused.
        training = "$BIN/ddp_training --batch-size 1024 --max-steps 30"
        ranks = f"1 {training} : -np 1 {start} {training}"
        result = command(f"exec mpirun -np {ranks}", **HIDE_GPUS)
    assert result.status == 0, result.err
    slow = [line for line in result.out.splitlines() if line.startswith("slow: ")]
    assert len(slow) == 1 and re.fullmatch(
        r"slow: rank 1's control group may use 0.3 processors, and was paused in \d+ of \d+ periods", slow[0]
    ), result.out
