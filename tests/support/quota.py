"""A command that starts a process with little processor time, by Linux's control groups."""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def quota_of(processors: float) -> Iterator[str]:
    """Yields the command; skips the test where control groups cannot be made, as without root."""
    groups = pathlib.Path("/sys/fs/cgroup")
    first_version = (groups / "cpu").is_dir()
    group = groups / ("cpu" if first_version else "") / f"dist-test-{os.getpid()}"
    microseconds = int(100_000 * processors)
    try:
        if not first_version:
            (groups / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
        if first_version:
            (group / "cpu.cfs_quota_us").write_text(str(microseconds))
        else:
            (group / "cpu.max").write_text(f"{microseconds} 100000")
    except OSError as problem:
        pytest.skip(f"control groups: {problem}")
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "with_quota"
        # In a network namespace, /sys is a new one, but the first process has the old one.
        script.write_text(
            "#!/bin/sh -e\nroot=/proc/1/root\n"
            f"[ -e $root{group} ] || root=\n"
            f'echo $$ >$root{group}/cgroup.procs\nexec "$@"\n'
        )
        script.chmod(0o755)
        try:
            yield str(script)
        finally:
            group.rmdir()
