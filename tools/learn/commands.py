"""Starts the programs as a reader does. The folder of the build is in $DIST_BUILD."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from typing import Any, NamedTuple

from place import MPI_ENVIRONMENT, ROOT  # a variable that is already set takes precedence

BUILD = pathlib.Path(os.environ.get("DIST_BUILD", ROOT / "build")).resolve()


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The lines of JSON."""
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]


def command(words: str, folder: str | os.PathLike[str] | None = None, limit: int = 120, **environment: str) -> Result:
    """Runs a shell command for at most `limit` seconds; $BIN holds the programs."""
    done = subprocess.run(
        ["timeout", "-k", "10", str(limit), "bash", "-c", words],
        cwd=folder,
        text=True,
        errors="replace",
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={**MPI_ENVIRONMENT, **os.environ, "BIN": str(BUILD / "bin"), **environment},
    )
    return Result(done.returncode, done.stdout, done.stderr)
