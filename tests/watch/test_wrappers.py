"""The watch is in front of MPI in every program; one without it does the same work."""

from __future__ import annotations

import os
import pathlib
import re

import pytest
from programs import BUILD, SANITIZED, command, refused, runs, watched

UNWATCHED = "../tests/all_reduce_unwatched"


def libraries(program: pathlib.Path | str, names: str = "dist_watch|mpi") -> list[str]:
    """Which of these libraries a program needs, in their order."""
    return re.findall(rf"\(NEEDED\).*\[lib({names})\.", command(f"readelf -d {program}").out)


@watched
def test_calls_of_mpi_go_to_the_watch_first() -> None:
    # A call goes to the first library that defines the function.
    programs = [
        path
        for folder in ("bin", "bin/broken")
        for path in (BUILD / folder).iterdir()
        if path.is_file() and os.access(path, os.X_OK)
    ]
    assert len(programs) >= 10
    for path in programs:
        if path.name in ("single_process", "matmul_perf"):  # they run without MPI
            assert "dist_watch" not in libraries(path)
        else:
            assert libraries(path) == ["dist_watch", "mpi"], path
    assert libraries(f"$BIN/{UNWATCHED}") == ["mpi"]


@watched
def test_the_compiler_hides_no_function_of_the_watch() -> None:
    """Open MPI's header would show MPI's functions nevertheless, and MPICH's would not."""
    steps = (BUILD / "build.ninja").read_text().split("\nbuild ")
    flags = [step for step in steps if step.startswith("tools/watch/") and "FLAGS" in step]
    assert flags and not [step for step in flags if "-fvisibility=hidden" in step]


@watched
@pytest.mark.skipif(SANITIZED, reason="the allocator is the sanitizer's")
def test_malloc_is_replaced_in_the_courses_programs_but_not_where_a_readers_code_runs() -> None:
    assert libraries("$BIN/send_recv", "dist_memory") == ["dist_memory"]
    assert libraries("$BIN/../tests/solutions_03", "dist_watch|dist_memory") == ["dist_watch"]


@pytest.mark.parametrize(
    "program, counts", [pytest.param("all_reduce_perf", (64, 2, [1]), marks=watched), (UNWATCHED, (None, None, None))]
)
def test_without_the_watch_a_program_does_the_same_work_but_counts_nothing(
    program: str, counts: tuple[int | None, int | None, list[int] | None]
) -> None:
    row = runs(2, f"{program} --algorithm ring --min-bytes 64 --max-bytes 64 --iterations 2 --json").rows[-1]
    assert (row["bytes_per_rank"], row["messages_per_rank"], row["peers"]) == counts
    assert row["wrong"] == 0


def test_without_the_watch_its_flags_are_refused() -> None:
    refused(f"{UNWATCHED} --strict", "--strict: unknown flag", ranks=2)
