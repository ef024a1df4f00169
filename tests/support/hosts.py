"""Two network namespaces of this machine (bench/two_hosts.sh) as two hosts, joined by a virtual cable
that can be slowed down or unplugged. Needs root."""

from __future__ import annotations

import functools
import os

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
