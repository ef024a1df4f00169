"""What a killed job leaves in shared memory is removed by the next one."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess

from programs import BUILD, MPI_ENVIRONMENT, hang, watched


def segments() -> list[tuple[int, int, int]]:
    """The segments of shared memory: id, the process that made it, and how many use it."""
    lines = pathlib.Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return [(int(words[1]), int(words[4]), int(words[6])) for words in map(str.split, lines)]


def parent(process: int) -> int | None:
    try:
        return int(pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def abandoned() -> set[int]:
    """Segments that nobody uses, and whose maker is gone."""
    return {segment for segment, maker, users in segments() if users == 0 and parent(maker) is None}


@watched
def test_the_next_job_removes_what_a_killed_job_leaves_in_shared_memory() -> None:
    before = abandoned()
    # Rank 0 never starts MPI. Rank 1 is killed before it removes the segment's name, but once it
    # has marked the segment: then, the watch's thread is started.
    job = subprocess.Popen(
        [
            "mpirun",
            "-np",
            "2",
            "sh",
            "-c",
            'test $OMPI_COMM_WORLD_RANK = 1 || exec sleep 60; exec "$0"',
            BUILD / "tests/hangs",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**MPI_ENVIRONMENT, **os.environ},
    )
    makers: list[int] = []
    while not makers and job.poll() is None:
        makers = [
            maker
            for _, maker, _ in segments()
            if parent(maker) == job.pid and len([*pathlib.Path(f"/proc/{maker}/task").glob("*")]) > 1
        ]
    assert makers, "no rank has made a segment"
    os.kill(makers[0], signal.SIGKILL)
    job.wait()
    hang(3, "../tests/hangs --case wrong-tag", timeout=1)
    assert abandoned() <= before
