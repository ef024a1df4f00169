"""Where the course is, and what its lessons are called."""

from __future__ import annotations

import dataclasses
import os
import pathlib

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


def mpi_environment() -> dict[str, str]:
    """How the course starts ranks (mpi.env). Variables that the reader has already set take precedence."""
    lines = (ROOT / "tools/learn/mpi.env").read_text().splitlines()
    ours = dict(line.split("=", 1) for line in lines if line and line[0] != "#")
    ours.update(without_memory_of_others())
    return {**ours, **{name: value for name, value in os.environ.items() if value or name not in ours}}


def without_memory_of_others() -> dict[str, str]:
    """What Open MPI 4 and 5 need where a process may not read another one's memory: some containers forbid
    it (EPERM), and emulated processors lack it (ENOSYS). They would print a line for every large message."""
    return {} if can_read_others() else {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_smsc": "^cma"}


def can_read_others() -> bool:
    """Whether the parent of a process may read its memory, tried with a byte of a child."""
    import ctypes

    class Part(ctypes.Structure):
        _fields_ = [("begin", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    ours, theirs = ctypes.create_string_buffer(1), ctypes.create_string_buffer(b"x")
    try:
        read = ctypes.CDLL(None, use_errno=True).process_vm_readv
    except (OSError, AttributeError):
        return True
    child = os.fork()
    if child == 0:
        import signal

        signal.pause()
    to, from_ = Part(ctypes.addressof(ours), 1), Part(ctypes.addressof(theirs), 1)
    size = ctypes.c_ulong(1)
    count = read(child, ctypes.byref(to), size, ctypes.byref(from_), size, ctypes.c_ulong(0))
    os.kill(child, 9)
    os.waitpid(child, 0)
    return bool(count == 1)
