"""Where the course is, and what its lessons are called."""

from __future__ import annotations

import dataclasses
import errno
import functools
import os
import pathlib
from collections.abc import Collection

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.path.realpath(os.environ.get("LEARN_BUILD_DIR") or ROOT / "build"))
EMULATED_BUILD = pathlib.Path(os.environ.get("LEARN_EMULATED_BUILD_DIR") or ROOT / "build-emulated")
PRESET = os.environ.get("LEARN_PRESET") or "default"
STATE = ROOT / ".learn"  # logs, and the progress of the exercises


@dataclasses.dataclass(frozen=True)
class Lesson:
    number: int
    folder: str
    program: str
    title: str


LESSONS = [
    Lesson(1, "01_send_recv", "send_recv", "a small tensor moves between ranks"),
    Lesson(2, "02_broadcast", "broadcast", "one rank's tensor is copied to all ranks"),
    Lesson(3, "03_all_reduce", "all_reduce", "everybody's tensors become one sum"),
    Lesson(4, "04_distributed_sampler", "distributed_sampler", "each rank finds its own samples"),
    Lesson(5, "05_ddp_training", "ddp_training", "N processes train one model"),
]
TESTS = 6  # the level of a build with tests; levels 1 to 5 are the lessons up to that number


def short(path: pathlib.Path) -> str:
    """As the reader would type it."""
    here = os.environ.get("PWD") or os.getcwd()
    return str(path)[len(here) + 1 :] if str(path).startswith(here + "/") else str(path)


# How the course starts ranks.
MPI_ENVIRONMENT = dict(
    line.split("=", 1) for line in (ROOT / "tools/learn/mpi.env").read_text().splitlines() if line[0] != "#"
)


def mpi_environment(without: Collection[str] = ()) -> dict[str, str]:
    """For mpirun. What the reader has already set takes precedence, but for these variables."""
    theirs = {name: value for name, value in os.environ.items() if name not in without}
    ours = {**MPI_ENVIRONMENT, **without_memory_of_others()}
    return {**ours, **{name: value for name, value in theirs.items() if value or name not in ours}}


def without_memory_of_others() -> dict[str, str]:
    """What Open MPI 4 and 5 need where a process may not read another one's memory. They would print a line
    for every large message."""
    if not why_memory_is_private():
        return {}
    return {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_smsc": "^cma"}


@functools.cache
def why_memory_is_private() -> str:
    """Why a process may not read its child's memory; "" if it may. Tried with a byte."""
    import ctypes

    class Part(ctypes.Structure):
        _fields_ = [("begin", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    ours, theirs = ctypes.create_string_buffer(1), ctypes.create_string_buffer(b"x")
    to, from_ = (ctypes.byref(Part(ctypes.addressof(each), 1)) for each in (ours, theirs))
    try:
        read = ctypes.CDLL(None, use_errno=True).process_vm_readv
    except (OSError, AttributeError):
        return ""
    waits, ends = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ends)
        os.read(waits, 1)  # until its parent has finished, or is no more
        os._exit(0)
    count = read(child, to, ctypes.c_ulong(1), from_, ctypes.c_ulong(1), ctypes.c_ulong(0))
    error = ctypes.get_errno()
    os.close(ends)
    os.close(waits)
    os.waitpid(child, 0)
    if count == 1:
        return ""
    return "this kernel or processor cannot do it" if error == errno.ENOSYS else "it is forbidden here"
