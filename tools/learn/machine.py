"""What this machine allows: disks, folders, files, processes."""

from __future__ import annotations

import ctypes
import os
import pathlib
import re
import resource
import signal
from typing import IO

from console import Failed


def require_free_disk(*folders: str | pathlib.Path) -> None:
    """Fails if the disk of one is full, which explains why something has failed. Some space may be free
    again, because compilers remove what they could not finish."""
    for folder in folders:
        try:
            disk = os.statvfs(folder)
        except OSError:
            continue
        if disk.f_blocks and disk.f_bavail * disk.f_frsize < 8192 * 1024:
            raise Failed(f"the disk of {folder} is full; free some space and run ./learn again")


def need_folder(*folders: pathlib.Path) -> None:
    """Creates them."""
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            pass
        if os.path.isdir(folder) and os.access(folder, os.W_OK):
            continue
        require_free_disk(folder.parent)
        another = "set LEARN_BUILD_DIR to another one, or " if os.environ.get("LEARN_BUILD_DIR") else ""
        raise Failed(
            f"{folder} cannot be written; {another}copy the course to a folder of your own and run ./learn there"
        )


def new_file(path: pathlib.Path) -> IO[bytes]:
    """Opens an empty file of ours. Another user's may be in its place, for example after one sudo ./learn."""
    try:
        return path.open("wb")
    except OSError as error:
        require_free_disk(path.parent)
        raise Failed(f"{path} cannot be written ({error.strerror}); remove it") from None


def input_of(text: str) -> IO[bytes]:
    """What a child reads, in memory. A pipe that it does not read to the end would end us (SIGPIPE)."""
    file = os.fdopen(os.memfd_create("input"), "w+b")
    file.write(text.encode())
    file.seek(0)
    return file


def end_with_us() -> None:
    """For a child, before its program begins: Linux ends it when we end, however that comes."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, int(signal.SIGTERM), 0, 0, 0)


def threads_of_ours() -> int:
    count = 0
    for process in pathlib.Path("/proc").glob("[0-9]*/task/*"):
        try:
            count += process.stat().st_uid == os.getuid()
        except OSError:
            pass
    return count


def require_limits() -> None:
    """Too few files or processes make mpirun print what helps nobody."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= files < 128:
        raise Failed(f"only {files} files may be open at a time; raise this limit: ulimit -n 1024")
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[0]  # counts all threads of a user, but not root's
    if os.getuid() != 0 and 0 <= processes < 4096:
        running = threads_of_ours()
        if processes - running < 64:
            raise Failed(
                f"only {processes} processes and threads are allowed, and {running} are running; "
                "raise this limit: ulimit -u 1024"
            )


def require_large_files() -> None:
    """mpirun's segment of shared memory is a file. If that cannot grow, mpirun may never end."""
    size = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if 0 <= size < 64 << 20:
        raise Failed(f"files may have only {size >> 10} KiB; raise this limit: ulimit -f unlimited")


def small_address_space() -> str:
    """A sentence about a limit that explains why a program could not start; "" if there is none."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return (
        f"a process may use only {limit >> 20} MiB of addresses (ulimit -v), and CUDA's libraries need gigabytes"
        if 0 <= limit < 3 << 30
        else ""
    )


def require_programs_run(build: pathlib.Path) -> None:
    """Fails if the disk of the build folder is mounted so that programs on it cannot be started."""
    folder = build
    while not folder.exists():
        folder = folder.parent
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise Failed(
            f"the disk of {build} is mounted noexec, so no program can be started there; "
            "set LEARN_BUILD_DIR to a folder on another disk"
        )


def first_line(output: str) -> str:
    """The first line that has words, without bash's name for a place in a script."""
    for line in output.splitlines():
        if found := re.match(r"(?:.*: line [0-9]+: )?(.*[^\W\d_].*)", line):
            return found[1]
    return "it says nothing"
