"""The report about a job that hangs names what each rank waits for. The cases are in hangs.cpp."""

import pathlib

import pytest
from programs import MPICH, NO_GRACE, command, hang
from watch_output import SLOW, checked, report_of, slices

# case and flags, ranks, the report: each line after "hang: ", without seconds. "...": other lines.
HANGS = [
    # Cycles, and who waits for them
    (
        "blocking-ring",
        4,
        [
            "rank 0 in MPI_Send to 1 (1 MiB, tag 0); rank 1 in MPI_Send to 2 (1 MiB, tag 0); "
            "rank 2 in MPI_Send to 3 (1 MiB, tag 0); rank 3 in MPI_Send to 0 (1 MiB, tag 0): "
            "cycle 0 -> 1 -> 2 -> 3 -> 0"
        ],
    ),
    (
        "shared-memory",
        4,
        [
            "rank 0 in MPI_Barrier #1; rank 1 in a flag in shared memory, waiting for rank 0: cycle 0 -> 1 -> 0",
            "ranks 0, 2, 3 are in MPI_Barrier #1; rank 1 never entered it",
        ],
    ),
    # A chain of waits, in which two ranks have exchanged messages
    (
        "chain",
        4,
        [
            "rank 0 in MPI_Recv from 3 (16 B, tag 0)",
            "rank 1 has made no MPI call for some time, last call MPI_Sendrecv to 0 and from 0",
            "rank 2 in MPI_Recv from 0 (16 B, tag 0)",
            "rank 3 has made no MPI call for some time, and none before",
        ],
    ),
    # Messages that do not match
    (
        "wrong-tag",
        4,
        [
            "rank 0 in MPI_Barrier #1; rank 1 in MPI_Recv from 0 (16 B, tag 7): cycle 0 -> 1 -> 0",
            "ranks 0, 2, 3 are in MPI_Barrier #1; rank 1 never entered it",
            "rank 1 waits for tag 7 from rank 0; rank 0 has sent tag 8",
        ],
    ),
    (
        "other-communicator",
        4,
        ["rank 1 waits for tag 0 from rank 3; rank 3 has sent tag 0 on a different communicator", "..."],
    ),
    (
        "between-groups",
        4,
        ["rank 0 in MPI_Recv from 3 (16 B, tag 0); rank 3 in MPI_Barrier #2: cycle 0 -> 3 -> 0", "..."],
    ),
    (
        "other-duplicate",
        4,
        ["rank 1 waits for tag 0 from rank 3; rank 3 has sent tag 0 on a different communicator", "..."],
    ),
    # Collectives
    (
        "skipped-collective",
        4,
        [
            "rank 2 in MPI_Recv from 3 (16 B, tag 0); rank 3 in MPI_Allreduce #7 (4 B): cycle 2 -> 3 -> 2",
            "ranks 0, 1, 3 are in MPI_Allreduce #7 (4 B); rank 2 never entered it, last seen in #6 (MPI_Barrier)",
        ],
    ),
    ("other-collective", 4, ["ranks 0, 1, 3 are in MPI_Allreduce #1 (4 B); rank 2 is in MPI_Bcast #1 (4 B, root 0)"]),
    ("other-root", 2, ["rank 0 is in MPI_Gather #1 (4 B, root 0); rank 1 is in MPI_Gather #1 (4 B, root 1)"]),
    (
        "skipped-broadcast",
        4,
        [
            "rank 0 in MPI_Send to 2 (4 MiB, tag 0); rank 2 in MPI_Barrier #1: cycle 0 -> 2 -> 0",
            "ranks 1, 2, 3 are in MPI_Barrier #1; rank 0 never entered it",
        ],
    ),
    (
        "skipped-shared-memory",
        4,
        ["rank 2 is in MPI_Barrier #5; ranks 0, 1, 3 never entered it, last seen in #4 (MPI_Bcast)", "..."],
    ),
    # Ranks that are not in MPI
    ("from-finished", 2, ["rank 0 in MPI_Recv from 1 (16 B, tag 0)", "rank 1 has already finished (MPI_Finalize)"]),
    (
        "stopped",
        4,
        [
            "ranks 0, 1, 3 are in MPI_Allreduce #1 (4 B); rank 2 never entered it",
            "rank 2 is stopped (SIGSTOP) outside MPI calls, and none before",
        ],
    ),
    (
        "first-stopped",
        4,
        [
            "ranks 1, 2, 3 are in MPI_Allreduce #1 (4 B); rank 0 never entered it",
            "rank 0 is stopped (SIGSTOP) outside MPI calls, and none before",
        ],
    ),
    ("stopped-while-all-compute", 3, ["rank 2 is stopped (SIGSTOP) outside MPI calls, and none before", "..."]),
    # What requests are for
    (
        "requests",
        4,
        [
            "rank 0 in MPI_Waitall for MPI_Irecv from 1 (16 B, tag 5) and MPI_Irecv from 2 (32 B, "
            "tag 6); rank 1 in MPI_Barrier #1: cycle 0 -> 1 -> 0",
            "ranks 1, 2, 3 are in MPI_Barrier #1; rank 0 never entered it",
        ],
    ),
    ("after-a-part", 4, ["ranks 0, 1, 3 are in MPI_Barrier #1; rank 2 never entered it", "..."]),
    (
        "found",
        4,
        [
            "ranks 1, 2, 3 are in MPI_Barrier #1; rank 0 never entered it",
            "rank 0 has made no MPI call for some time, last call MPI_Iprobe from 1",
        ],
    ),
    (
        "started",
        4,
        [
            "ranks 0, 1, 3 are in MPI_Wait for MPI_Iallreduce #1 (4 B)",
            "rank 2 has made no MPI call for some time, last call MPI_Iallreduce #1",
        ],
    ),
    # Our own operations, which are named and numbered like MPI's
    (
        "named --strict",
        4,
        [
            "ranks 1, 3 are in all_reduce #7 (bucket 2: 2.weight, 2.bias); rank 2 never entered it, last seen in #6",
            "rank 0 has already finished (MPI_Finalize)",
            "rank 1 in MPI_Sendrecv to 2 and from 0 (16 B, tag 0) of all_reduce #7 (bucket 2: 2.weight, 2.bias)",
            "rank 2 has made no MPI call for some time, last call MPI_Sendrecv to 3 and from 1",
            "rank 3 in MPI_Sendrecv to 0 and from 2 (16 B, tag 0) of all_reduce #7 (bucket 2: 2.weight, 2.bias)",
        ],
    ),
    (
        "named-patiently --strict",
        4,
        [
            "ranks 1, 3 are in all_reduce #7 (bucket 2: 2.weight, 2.bias); rank 2 never entered it, last seen in #6",
            "rank 3 in MPI_Sendrecv to 0 and from 2 (16 B, tag 0) of all_reduce #7 (bucket 2: 2.weight, 2.bias)",
            "...",
        ],
    ),
]

# The call that hangs, and how often the trace has it.
CALLS = {
    "wrong-tag": ("MPI_Recv", 1),
    "stopped": ("MPI_Allreduce", 3),
    "first-stopped": ("MPI_Allreduce", 3),  # rank 0 cannot write the trace
    "named --strict": ("all_reduce", 4 * 6 + 1),
}  # rank 0 finishes its seventh


@pytest.mark.parametrize(
    "case, ranks, report",
    [pytest.param(*row, id=row[0], marks=[pytest.mark.quick] if place == 0 else []) for place, row in enumerate(HANGS)],
)
def test_the_report_and_the_trace_of(case: str, ranks: int, report: list[str], tmp_path: pathlib.Path) -> None:
    if MPICH and case == "started":
        pytest.skip("with MPICH, a rank that has not called it does not hold up this collective")
    # A stopped rank must not outlive the job: mpirun would wait for it, past the limit of `hang`.
    path = tmp_path / "t.json"
    *said, _, last = report_of(hang(ranks, f"../tests/hangs --case {case} --trace {path}", timeout=1))
    assert last == f"the trace is in {path}"
    # On a busy machine, any rank may have been slow.
    said = [line for line in said if not line.startswith(SLOW)]
    if report[-1] == "...":
        assert [line for line in report[:-1] if line not in said] == [], said
    else:
        assert said == report
    trace = checked(path, ranks)
    if case in CALLS:
        call, times = CALLS[case]
        found = slices(trace, call)
        assert len(found) == times
        if call == "all_reduce":
            assert {event["args"]["tensor"] for event in found} == {"bucket 2: 2.weight, 2.bias"}


def test_a_number_that_a_wrapper_script_gives_a_rank_is_named() -> None:
    result = command("exec mpirun -np 2 env OMPI_COMM_WORLD_LOCAL_RANK=7 $BIN/send_recv", **NO_GRACE)
    assert result.status == 0, result.err
    assert result.err.count("note: the launcher's variables call this rank number 7 of 2 on this host, ") == 2


def test_a_rank_that_sees_only_its_own_board_does_not_take_all_ranks_for_there() -> None:
    """As where srun starts the ranks, and no variable says how many are on a host."""
    result = command(
        "exec mpirun -np 4 env -u OMPI_COMM_WORLD_LOCAL_SIZE -u OMPI_COMM_WORLD_LOCAL_RANK "
        "-u MPI_LOCALNRANKS -u MPI_LOCALRANKID $BIN/../tests/hangs --case other-collective --timeout 1",
        **NO_GRACE,
    )
    assert result.status == 86 or MPICH and result.status == 9, result.err
    assert "hang: nothing has moved on this host for 1 s (--timeout)\n" in result.err
