"""What tests expect of a program that they start (tools/learn/commands.py), and of this build."""

from __future__ import annotations

import functools
import os
import re
import shutil
from typing import Any

import pytest

from commands import BUILD, MPI_ENVIRONMENT, ROOT, Result, command  # noqa: F401

Environment = dict[str, Any]

CACHE = (BUILD / "CMakeCache.txt").read_text() if (BUILD / "CMakeCache.txt").exists() else ""  # not built
EMULATED = "DIST_CUDA:STRING=EMULATED" in CACHE
MPICH = re.search("^MPI_CXX_HEADER_DIR:.*mpich", CACHE, re.M) is not None
BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
SANITIZED = "DIST_SANITIZE:STRING=\n" not in CACHE and "DIST_SANITIZE:STRING=" in CACHE

# Marks of tests that need something of this build.
emulated = pytest.mark.skipif(not EMULATED, reason="only emulated GPUs do this on request")
watched = pytest.mark.skipif(bool(CACHE) and "DIST_WATCH:BOOL=ON" not in CACHE, reason="the build has no watch")
built = pytest.mark.skipif(not CACHE, reason="nothing is built yet (./learn test)")

# Environments for runs: about the CPU; and in which all ranks end together with a non-zero status
# (without it, Open MPI 4 waits a second or two for other ranks, although none are left).
HIDE_GPUS: Environment = {"CUDA_VISIBLE_DEVICES": "", "EMULATED_GPUS": "0"}
NO_GRACE: Environment = {"OMPI_MCA_odls_base_sigkill_timeout": "0"}


def need(program: str) -> None:
    """Fails if this program of the build's bin/ has not been built."""
    if not (BUILD / "bin" / program).exists():
        pytest.fail(f"build {program} first: ./learn test --all builds everything", pytrace=False)


def mpirun(
    ranks: int, program: str, folder: str | os.PathLike[str] | None = None, limit: int = 120, **environment: str
) -> Result:
    """Runs "PROGRAM FLAGS" of the build's bin/ on so many ranks, with any exit status."""
    need(program.split()[0])
    return command(f"exec mpirun -np {ranks} $BIN/{program}", folder, limit, **environment)


def runs(
    ranks: int,
    program: str,
    folder: str | os.PathLike[str] | None = None,
    status: int = 0,
    limit: int = 120,
    **environment: str,
) -> Result:
    """Like mpirun, and checks the exit status. MPICH's may tell of another rank, which it has killed."""
    result = mpirun(ranks, program, folder, limit, **environment)
    assert result.status == status or MPICH and (status, result.status) == (86, 9), result.out + result.err
    return result


def refused(
    program: str, error: str, ranks: int = 3, folder: str | os.PathLike[str] | None = None, **environment: str
) -> None:
    """All ranks refuse together: status 2, one sentence that begins with `error`, no output."""
    result = runs(ranks, program, folder, status=2, **{**NO_GRACE, **environment})
    errors = [line for line in result.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and errors[0].startswith("error: " + error), result.err
    assert not result.out


def says(result: Result, *texts: str) -> None:
    for text in texts:
        assert text in result.out + result.err


def hang(ranks: int, program: str, *texts: str, timeout: int = 2) -> Result:
    """Nothing moves until the watch ends the run with a report that says `texts`."""
    result = runs(ranks, f"{program} --timeout {timeout}", status=86, **NO_GRACE)
    says(result, f"hang: nothing has moved on this host for {timeout} s (--timeout)", *texts)
    return result


# The first of the GPUs that the user leaves to us, for all ranks.
ONE_GPU: Environment = {
    "EMULATED_GPUS": "1",
    "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0],
}


@functools.cache
def gpus_and_reason() -> tuple[int, str | None]:
    """How many GPUs a program finds, emulated ones included, and why there are none. nvidia-smi
    would also count those that CUDA_VISIBLE_DEVICES hides."""
    if "GPUS_FOUND" in os.environ:  # by on_gpus.py
        return int(os.environ["GPUS_FOUND"]), ""
    if "DIST_CUDA:STRING=OFF" in CACHE:
        return 0, "the build is without CUDA"
    result = mpirun(1, "ddp_training --max-steps 1")
    found = re.search(r" on (\S+) \((?:(\d+) (?:emulated )?GPUs? on this host|(.*))\)", result.out)
    if found is None:
        said = (result.err.splitlines() or [f"status {result.status}"])[0]
        return 0, f"no program can say how many GPUs there are: {said}"
    return int(found[2] or 0), found[3]


def gpus() -> int:
    return gpus_and_reason()[0]
