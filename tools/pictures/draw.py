#!/usr/bin/env python3
"""Draws the pictures of the READMEs, docs/pictures/*.svg, from runs of the course's programs.

draw.py                   draws the runs recorded in docs/pictures/runs; the same bytes each time
draw.py --record BUILD    first runs the programs of this build and records them
draw.py -o FOLDER         draws into another folder
draw.py NAME...           draws only these pictures

Each picture is a module: record(programs) returns the run to be kept, draw(run) returns the SVG.
"""
import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

import buckets
import eager_rendezvous
import message_cost
import overlap
import ring
import sampler
import tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "pictures"
PICTURES = {module.__name__: module
            for module in (ring, tree, eager_rendezvous, message_cost, sampler,
                             buckets, overlap)}


class Programs:
    """Runs commands as the READMEs write them: build/bin/NAME, tests/support/NAME."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()

    def output(self, command, file=None):
        """What the command prints, or writes into this file. It runs in an empty folder, so that
        .learn/ is neither read nor changed."""
        words = [self.place(word) for word in shlex.split(command)]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=600)
            if done.returncode != 0:
                sys.exit(f"error: this failed: {command}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
            return (pathlib.Path(folder) / file).read_text("utf-8") if file else done.stdout

    def place(self, word):
        folder, _, file = word.partition("/")
        folders = {"build": self.build, "tests": ROOT / "tests"}
        return str(folders[folder] / file) if folder in folders else word

    def rows(self, command):
        return [json.loads(line) for line in self.output(command).splitlines() if line[:1] == "{"]

    def trace(self, command):
        """The events of a command that ends in --trace FILE, in order of their start."""
        events = json.loads(self.output(command, command.split()[-1]))["traceEvents"]
        return sorted((event for event in events if "ts" in event), key=lambda event: event["ts"])


def recorded(name):
    return json.loads((FOLDER / "runs" / f"{name}.json").read_text(encoding="utf-8"))


def record(name, programs):
    """Writes one line per part, for short files and readable diffs."""
    lines = (f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}"
             for key, value in PICTURES[name].record(programs).items())
    (FOLDER / "runs" / f"{name}.json").write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    parser.add_argument("--record", metavar="BUILD", help="folder of a build")
    parser.add_argument("-o", metavar="FOLDER", dest="folder", type=pathlib.Path, default=FOLDER)
    options = parser.parse_args()
    for name in options.names:
        if name not in PICTURES:
            parser.error(f"{name} is not one of {', '.join(PICTURES)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or PICTURES:
        if options.record:
            record(name, Programs(options.record))
        svg = PICTURES[name].draw(recorded(name))
        (options.folder / f"{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
