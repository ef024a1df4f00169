"""A rank that keeps MPI from starting or ending is reported."""

import pathlib

import pytest
from programs import NO_GRACE, command, says
from watch_output import report_of

START_OR_END = "30 s, at the start or end of MPI or NCCL"


# A rank is stopped while MPI starts: once it has a second thread. This is the watch's, which
# starts when the rank is on the watch's board, long before MPI_Init returns. Or while MPI shuts
# down. Or a rank runs another program without the watch, which is reported when MPI has started.
@pytest.mark.parametrize(
    "words, line, last",
    [
        (
            """-np 3 sh -c 'test $OMPI_COMM_WORLD_RANK = 1 && (
        until set -- /proc/$$/task/*; test $# -gt 1; do :; done; kill -STOP $$) &
        exec "$0" --timeout 1' $BIN/ddp_training""",
            "rank 1 is stopped (SIGSTOP)",
            START_OR_END,
        ),
        (
            "-np 3 $BIN/../tests/hangs --case stopped-in-finalize --timeout 1",
            "rank 2 is stopped (SIGSTOP) outside MPI calls, last call MPI_Finalize",
            START_OR_END,
        ),
        (
            "-np 1 $BIN/ddp_training --timeout 1 : -np 1 ./other",
            "1 of the 2 ranks of this host started without the watch\n",
            "1 s (--timeout)",
        ),
    ],
    ids=["start", "end", "unwatched"],
)
def test_what_keeps_mpi_from_starting_or_ending_is_reported(
    words: str, line: str, last: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "other.c").write_text(
        "#include <mpi.h>\n#include <unistd.h>\nint main(void) { MPI_Init(0, 0); return pause(); }\n"
    )
    assert "./other" not in words or command("mpicc -o other other.c", tmp_path).status == 0
    result = command(f"exec mpirun {words}", tmp_path)
    # mpirun itself may fail as it ends: it deadlocks until the watch kills it, or it crashes
    # (tools/watch/report/end_launcher.hpp). A shell adds 128 to a signal's number, Python negates it.
    assert result.status in (86, 137, -9) or result.status in (139, -11) and "PMIx_server_finalize" in result.err, (
        result.err
    )
    says(result, f"hang: {line}", f"hang: nothing has moved on this host for {last}\n")


def test_a_rank_that_never_starts_mpi_is_reported_by_the_others() -> None:
    # MPI is given 30 s to start, even if the time-out is shorter.
    result = command(
        "exec mpirun -np 2 sh -c 'test $OMPI_COMM_WORLD_RANK = 0 || exec sleep 100; exec $BIN/send_recv --timeout 1'",
        **NO_GRACE,
    )
    assert result.status == 86, result.err
    assert report_of(result)[:2] == ["rank 0 in MPI_Init", "1 of the 2 ranks of this host never reached MPI_Init"]
