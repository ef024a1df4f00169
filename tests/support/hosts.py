"""This machine as others, which needs root: two network namespaces (bench/two_hosts.sh) as two hosts, joined by a
virtual cable that can be slowed down or unplugged; and a process with little processor time (control groups)."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import tempfile
from collections.abc import Iterator

import pytest
from programs import HIDE_GPUS, ROOT, Result, command

TWO_HOSTS = ROOT / "bench/two_hosts.sh"


@functools.cache
def trial() -> Result:
    return command(f"{TWO_HOSTS} --rate 1gbit true")


def on_hosts(
    ranks: int | str,
    program: str,
    options: str = "",
    folder: str | os.PathLike[str] | None = None,
    status: int | None = 0,
    **environment: str,
) -> Result:
    """Runs a program with so many ranks on each host; after two minutes, the status is 124."""
    if trial().status == 77:
        pytest.skip(trial().out.strip())
    assert trial().status == 0, trial().err
    ranks = f"--ranks {ranks}" if "," in str(ranks) else f"--ranks-per-host {ranks}"
    result = command(f"exec {TWO_HOSTS} {ranks} {options} $BIN/{program}", folder, **{**HIDE_GPUS, **environment})
    assert status in (None, result.status), result.out + result.err
    return result


@contextlib.contextmanager
def quota_of(processors: float) -> Iterator[str]:
    """Yields a command that starts a process with so many processors; skips the test where control groups cannot
    be made, as without root."""
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
