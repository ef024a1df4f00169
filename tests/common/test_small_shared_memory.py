"""Programs run, and hangs are reported, with a container's small /dev/shm."""

import pathlib

import pytest
from programs import Result, command, says


def in_container(shared_memory: str, program: str, folder: pathlib.Path) -> Result:
    """Runs a program on 4 ranks with its own /dev/shm, as after docker run --shm-size. The watch
    keeps its memory elsewhere, and Open MPI falls back to TCP for what it cannot share."""
    prefix = (
        "unshare --map-root-user --mount sh -c "
        f"'mount -t tmpfs -o size={shared_memory} tmpfs /dev/shm && exec \"$@\"' sh"
    )
    if command(f"{prefix} true").status != 0:
        pytest.skip("mounts are not allowed here")
    return command(f"exec {prefix} mpirun -np 4 $BIN/{program}", folder)


@pytest.mark.parametrize("size, trace", [("16m", "--trace t"), ("1m", "--trace t"), ("64k", "--trace t"), ("64k", "")])
def test_programs_work_with_a_small_shared_memory(tmp_path: pathlib.Path, size: str, trace: str) -> None:
    for program in ("send_recv", "all_reduce_perf --max-bytes 4096 --iterations 2", "ddp_training --max-steps 2"):
        result = in_container(size, f"{program} --timeout 30 {trace}", tmp_path)
        assert result.status == 0, result.out + result.err


@pytest.mark.parametrize("size", ["16m", "64k"])
def test_a_hang_report_is_complete_with_a_small_shared_memory(tmp_path: pathlib.Path, size: str) -> None:
    result = in_container(size, "../tests/hangs --case stopped --timeout 1 --trace t", tmp_path)
    assert result.status == 86
    says(
        result,
        "hang: ranks 0, 1, 3 are in MPI_Allreduce #1 (4 B); rank 2 never entered it\nhang: rank 2 is stopped (SIGSTOP)",
        "hang: the trace is in t\n",
    )
