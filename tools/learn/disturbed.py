"""Runs of ddp_training, or another trainer, that something happens to while they train."""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable

from commands import BUILD, Result
from place import MPI_ENVIRONMENT

SMALL = "--dataset synthetic --samples 3001 --layers 64,96,32,10"
JOB = f"{SMALL} --batch-size 13 --accumulate 2"  # two uneven batches per step
# So many steps that the run cannot end before it is disturbed.
LONG = JOB + " --max-steps 1000000"


def children(pid: int) -> list[int]:
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()]


def steps_in(path: pathlib.Path) -> int:
    """How many steps have whole lines in a file of --metrics."""
    return sum('"step":' in line for line in path.read_text().split("\n")[:-1]) if path.exists() else 0


def wait_until(event: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Waits until event() is true, or the process has ended."""
    while process.poll() is None and not event():
        time.sleep(0.01)


def disturbed(
    folder: pathlib.Path,
    ranks: int,
    flags: str,
    event: int | Callable[[int, list[int]], bool],
    action: Callable[[int, list[int]], object],
    limit: int = 120,
    program: str = "ddp_training",
) -> Result:
    """Starts a program that trains in `folder`, waits for the event, and acts. The result is mpirun's.

    `event` is a number of steps in cut.jsonl, or a function. Functions are called with the
    process ids of mpirun and of the ranks, in order.
    """
    words = ["timeout", "-k", "10", str(limit), "mpirun", "-np", str(ranks), str(BUILD / "bin" / program)]

    def happened() -> bool:
        if isinstance(event, int):
            return steps_in(folder / "cut.jsonl") >= event
        return bool(mpirun := children(process.pid)) and event(mpirun[0], children(mpirun[0]))

    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process: subprocess.Popen[bytes] = subprocess.Popen(
            [*words, *shlex.split(flags)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**MPI_ENVIRONMENT, **os.environ},
        )
        try:
            wait_until(happened, process)
            if process.poll() is None:
                (mpirun,) = children(process.pid)
                action(mpirun, children(mpirun))
            process.wait()
        finally:
            process.terminate()  # does nothing if the run has ended
        out.seek(0)
        err.seek(0)
        status = process.returncode
        return Result(status if status >= 0 else 128 - status, out.read(), err.read())
