"""The watch is in front of MPI in every program, a program without it does the same work, and it
leaves nothing in shared memory."""
import os
import pathlib
import re
import signal
import subprocess

import pytest

from programs import (BUILD, CACHE, MPI_ENVIRONMENT, SANITIZED, command, hang, refused, runs)

WATCH = pytest.mark.skipif("DIST_WATCH:BOOL=ON" not in CACHE, reason="the build has no watch")
UNWATCHED = "../tests/all_reduce_unwatched"


def libraries(program):
    """Which of the two libraries a program needs, in their order."""
    return re.findall(r"\(NEEDED\).*\[lib(dist_watch|mpi)\.", command(f"readelf -d {program}").out)


@WATCH
def test_calls_of_mpi_go_to_the_watch_first():
    # A call goes to the first library that defines the function.
    programs = [path for folder in ("bin", "bin/broken") for path in (BUILD / folder).iterdir()
                if path.is_file() and os.access(path, os.X_OK)]
    assert len(programs) >= 10
    for path in programs:
        if path.name == "single_process":
            assert "dist_watch" not in libraries(path)
        else:
            assert libraries(path) == ["dist_watch", "mpi"], path
    assert libraries(f"$BIN/{UNWATCHED}") == ["mpi"]


@WATCH
@pytest.mark.skipif(SANITIZED, reason="the allocator is the sanitizer's")
@pytest.mark.parametrize("library, status", [("libcudart_probe.so", 0), ("libother.so", 1)])
def test_a_library_of_cuda_is_told_that_memory_ran_out_and_others_end_the_rank(
        tmp_path, library, status):
    (tmp_path / "probe.c").write_text('''
        #include <stdlib.h>
        #include <sys/mman.h>
        #include <sys/resource.h>
        __attribute__((constructor)) static void probe(void) {
          struct rlimit before, small;
          if (!getenv("OMPI_COMM_WORLD_RANK") || getrlimit(RLIMIT_AS, &before)) return;
          small = before;
          small.rlim_cur = 1UL << 30;
          setrlimit(RLIMIT_AS, &small);
          void* volatile memory = malloc(1UL << 32);
          void* mapped = mmap(0, 1UL << 32, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          setrlimit(RLIMIT_AS, &before);
          if (memory || mapped != MAP_FAILED) abort();
        }''')
    built = command(f"cc -shared -fPIC -o {library} probe.c", tmp_path)
    assert built.status == 0, built.err
    result = command(f"mpirun -np 1 -x LD_PRELOAD=./{library} $BIN/send_recv --device cpu", tmp_path)
    assert result.status == status, result.err
    assert status == 0 or "fatal: out of memory: 4294967296 bytes" in result.err


@pytest.mark.parametrize("program, counts", [
    pytest.param("all_reduce_perf", (64, 2, [1]), marks=WATCH), (UNWATCHED, (None, None, None))])
def test_without_the_watch_a_program_does_the_same_work_but_counts_nothing(program, counts):
    row = runs(2, f"{program} --algorithm ring --min-bytes 64 --max-bytes 64 --iterations 2 --json"
               ).rows[-1]
    assert (row["bytes_per_rank"], row["messages_per_rank"], row["peers"]) == counts
    assert row["wrong"] == 0


def test_without_the_watch_its_flags_are_refused():
    refused(f"{UNWATCHED} --strict", "--strict: unknown flag", ranks=2)


def segments():
    """The segments of shared memory: id, the process that made it, and how many use it."""
    lines = pathlib.Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return [(int(words[1]), int(words[4]), int(words[6])) for words in map(str.split, lines)]


def parent(process):
    try:
        return int(pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def abandoned():
    """Segments that nobody uses, and whose maker is gone."""
    return {segment for segment, maker, users in segments() if users == 0 and parent(maker) is None}


@WATCH
def test_the_next_job_removes_what_a_killed_job_leaves_in_shared_memory():
    before = abandoned()
    # Rank 0 never starts MPI. Rank 1 is killed before it removes the segment's name, but once it
    # has marked the segment: then, the watch's thread is started.
    job = subprocess.Popen(
        ["mpirun", "-np", "2", "sh", "-c",
         'test $OMPI_COMM_WORLD_RANK = 1 || exec sleep 60; exec "$0"', BUILD / "tests/hangs"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**MPI_ENVIRONMENT, **os.environ})
    makers = []
    while not makers and job.poll() is None:
        makers = [maker for _, maker, _ in segments() if parent(maker) == job.pid
                  and len([*pathlib.Path(f"/proc/{maker}/task").glob("*")]) > 1]
    assert makers, "no rank has made a segment"
    os.kill(makers[0], signal.SIGKILL)
    job.wait()
    hang(3, "../tests/hangs --case wrong-tag", timeout=1)
    assert abandoned() <= before
