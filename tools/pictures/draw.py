#!/usr/bin/env python3
"""Draws the pictures of the READMEs, docs/pictures/*.svg, from runs of the course's programs.

draw.py                             draws the runs recorded in docs/pictures/runs.json; always the same bytes
draw.py --record BUILD [NAME ...]   first runs the programs of this build and records them, for the pictures
                                    of these names or for all

Each picture is a module: COMMAND is its run, record(programs) returns what is to be kept of it, and
draw(run) returns the SVG.
"""

from __future__ import annotations

import importlib
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "pictures"
PICTURES = {
    name: importlib.import_module(name)
    for name in ("ring", "tree", "eager_rendezvous", "message_cost", "sampler", "buckets", "overlap", "pipeline")
}


class Programs:
    """Runs commands as the READMEs write them."""

    def __init__(self, build: str) -> None:
        self.build = pathlib.Path(build).resolve()

    def output(self, command: str, file: str | None = None) -> str:
        """What the command prints, or writes into this file. It runs in an empty folder, so that
        .learn/ is neither read nor changed."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                command.replace("build/", f"{self.build}/").split(),
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=600,
            )
            if done.returncode != 0:
                sys.exit(f"error: this failed: {command}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
            return (pathlib.Path(folder) / file).read_text("utf-8") if file else done.stdout

    def rows(self, command: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.output(command).splitlines() if line[:1] == "{"]

    def trace(self, command: str) -> list[dict[str, Any]]:
        """The events of a command that ends in --trace FILE, in order of their start."""
        events = json.loads(self.output(command, command.split()[-1]))["traceEvents"]
        return sorted((event for event in events if "ts" in event), key=lambda event: event["ts"])


def recorded(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / "runs.json").read_text(encoding="utf-8"))[name]


def draw(name: str) -> str:
    return PICTURES[name].draw(recorded(name))


def record(build: str, names: list[str]) -> None:
    """Each part of a run gets a line, for readable diffs."""
    if unknown := [name for name in names if name not in PICTURES]:
        sys.exit(f"error: {unknown[0]} is not one of {', '.join(PICTURES)}")
    runs = []
    for name, module in PICTURES.items():
        is_new = not names or name in names
        run = {"command": module.COMMAND, **module.record(Programs(build))} if is_new else recorded(name)
        parts = (f'"{key}":{json.dumps(value, separators=(",", ":"))}' for key, value in run.items())
        runs.append(f'"{name}":{{' + ",\n".join(parts) + "}")
    (FOLDER / "runs.json").write_text("{" + ",\n".join(runs) + "}\n", encoding="utf-8")


def main() -> None:
    if sys.argv[1:2] == ["--record"]:
        record(sys.argv[2], sys.argv[3:])
    for name in PICTURES:
        (FOLDER / f"{name}.svg").write_text(draw(name), encoding="utf-8")


if __name__ == "__main__":
    main()
