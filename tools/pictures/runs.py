"""Runs the course's programs as a reader would, and stores what the pictures need."""
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = ROOT / "docs" / "pictures" / "runs"


class Programs:
    """Takes commands as the READMEs write them: build/bin/NAME, tests/support/NAME."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()

    def output(self, command):
        """Runs in an empty folder, so that .learn/ is neither read nor changed."""
        with tempfile.TemporaryDirectory() as folder:
            return self.output_in(folder, command)

    def rows(self, command):
        return [json.loads(line) for line in self.output(command).splitlines() if line[:1] == "{"]

    def trace(self, command):
        """The events of a command that ends in --trace FILE, in order of their start."""
        with tempfile.TemporaryDirectory() as folder:
            self.output_in(folder, command)
            file = pathlib.Path(folder) / command.split()[-1]
            events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
        return sorted((event for event in events if "ts" in event), key=lambda event: event["ts"])

    def output_in(self, folder, command):
        words = [self.place(word) for word in shlex.split(command)]
        done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=600)
        if done.returncode != 0:
            sys.exit(f"error: this failed: {command}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
        return done.stdout

    def place(self, word):
        if word.startswith("build/"):
            return str(self.build / word[len("build/"):])
        return str(ROOT / word) if word.startswith("tests/") else word


def load(name):
    return json.loads((RUNS / f"{name}.json").read_text(encoding="utf-8"))


def save(name, run):
    """Writes one line per part, for short files and readable diffs."""
    lines = (f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}"
             for key, value in run.items())
    RUNS.mkdir(parents=True, exist_ok=True)
    (RUNS / f"{name}.json").write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
