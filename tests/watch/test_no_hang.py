"""What is only slow, stopped or computing is not reported as a hang, and --timeout says from when on."""

import os
import pathlib
import signal
import subprocess
import time

import pytest
from programs import BUILD, MPI_ENVIRONMENT, NO_GRACE, command, runs

from disturbed import children


@pytest.mark.parametrize(
    "flags", ["slow --timeout 1.5", "slow-waits --timeout 1.5", "slow-disk --timeout 1.5", "slow --timeout 0"]
)
def test_a_slow_run_is_not_a_hang(flags: str) -> None:
    assert "hang:" not in runs(3, f"../tests/slow_ranks --case {flags}").err


@pytest.mark.long
def test_ranks_that_were_stopped_together_are_not_hanging() -> None:
    """As after Ctrl-Z, or on a laptop that slept, for longer than the time-out."""
    job = subprocess.Popen(
        ["mpirun", "-np", "2", BUILD / "tests/slow_ranks", "--case", "waiting", "--timeout", "5"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**MPI_ENVIRONMENT, **os.environ},
    )
    assert job.stdout and job.stdout.readline() == "waiting\n"
    ranks = children(job.pid)
    for sent, then in ((0, 0.5), (signal.SIGSTOP, 7), (signal.SIGCONT, 0)):  # first it stands still
        for rank in ranks:
            os.kill(rank, sent)
        time.sleep(then)
    _, said = job.communicate()
    assert job.returncode == 0 and "hang:" not in said, said


@pytest.mark.parametrize("flags, seconds", [("", "60"), ("--timeout 2.5", "2.5"), ("--timeout 0", "0")])
def test_the_time_out_is_what_the_flag_says(flags: str, seconds: str) -> None:
    assert runs(2, f"../tests/slow_ranks --case timeout {flags}").out == f"{seconds}\n"


@pytest.mark.parametrize("ranks", [1, 3])
def test_ranks_that_all_compute_are_not_hanging(ranks: int) -> None:
    said = runs(ranks, "../tests/slow_ranks --case computing --timeout 1").err
    assert "hang:" not in said
    lines = [line for line in said.splitlines() if line.startswith("computing: ")]
    assert 2 <= len(lines) <= 3 and len(set(lines)) == 1
    assert lines[0] == ("computing: no rank of this host has called MPI for 1 s, and none waits (--timeout)")


@pytest.mark.long
@pytest.mark.parametrize("seconds, status", [(3, 0), (60, 86)])
def test_a_collective_that_all_ranks_have_entered_may_take_ten_times_as_long(
    seconds: int, status: int, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "slow.c").write_text(f"""
        #include <mpi.h>
        #include <unistd.h>
        int PMPI_Barrier(MPI_Comm comm) {{  // instead of MPI's; the first one takes long
          static int calls;
          if (calls++ == 0) sleep({seconds});
          return MPI_SUCCESS;
        }}""")
    built = command("mpicc -shared -fPIC -o slow.so slow.c", tmp_path)
    assert built.status == 0, built.err
    result = command(
        "exec mpirun -np 3 -x LD_PRELOAD=./slow.so $BIN/../tests/slow_ranks --case slow --timeout 1",
        tmp_path,
        **NO_GRACE,
    )
    assert result.status == status, result.err
    assert ("hang: ranks 0, 1, 2 are in MPI_Barrier #1\n" in result.err) == (status == 86)
    assert ("hang: nothing has moved on this host for 10 s, although all ranks are there\n" in result.err) == (
        status == 86
    )
