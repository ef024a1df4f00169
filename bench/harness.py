"""What the words of ./learn bench share: the loop of rounds, statistics, tables, and facts about
the machine.

A word is a class derived from Word. It says which programs are compared (`turns`) and which tables
show the result (`tables`). Needs only Python's standard library.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
PYTORCH_DDP = HERE / "peers" / "pytorch_ddp.py"
GLOO = "torch.distributed.is_gloo_available()"
CORES = len(os.sched_getaffinity(0))

Command = Sequence[object]
Row = dict[str, Any]
Key = tuple[Any, ...]
AddFlag = Callable[..., argparse.Action]


def say(text: object) -> None:
    """Prints progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def attempt(command: Command, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command that may fail."""
    try:
        return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as problem:
        sys.exit(f"error: {problem}")


def run(command: Command, environment: dict[str, str] | None = None) -> str:
    """Runs a command that must succeed, and returns its standard output."""
    done = attempt(command, environment)
    if done.returncode == 77:  # two_hosts.sh: this machine cannot set up two hosts
        sys.exit(done.stdout.strip())
    if done.returncode != 0:
        sys.exit(f"error: the command failed: {shown(command)}\n{done.stderr[-2000:]}")
    return done.stdout


def rows_of(command: Command, environment: dict[str, str] | None = None) -> list[Row]:
    """The JSON rows that a command prints."""
    return [json.loads(line) for line in run(command, environment).splitlines() if line.startswith("{")]


def last_row(command: Command) -> Row:
    """The last JSON row of a command, without the hashes of all parameters."""
    row = rows_of(command)[-1]
    row.pop("parameters", None)
    return row


def first_line(*command: str | pathlib.Path) -> str:
    """The first line that a command prints; empty if it fails or does not exist."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.partition("\n")[0]
    except (OSError, subprocess.CalledProcessError):
        return ""


def shown(command: Command) -> str:
    """A command as a reader can type it, without this machine's folders."""
    return shlex.join(pathlib.Path(word).name if word.startswith("/") else word for word in map(str, command))


def at_least(smallest: int, unit: str) -> Callable[[str], int]:
    """The type of a flag, for argparse."""

    def parse(text: str) -> int:
        if not text.isdigit() or int(text) < smallest:
            raise argparse.ArgumentTypeError(f"must be whole numbers, and at least {smallest} {unit}")
        return int(text)

    return parse


class Model:
    """Layer widths and samples per rank, given as 784-512-10:64."""

    def __init__(self, text: str) -> None:
        if not re.fullmatch(r"([1-9]\d*-)+[1-9]\d*:[1-9]\d*", text):
            raise argparse.ArgumentTypeError(f"'{text}' must look like 784-512-10:64")
        self.name, batch = text.split(":")
        self.widths, self.batch = list(map(int, self.name.split("-"))), int(batch)
        self.parameters = sum(i * o + o for i, o in zip(self.widths, self.widths[1:]))

    def __str__(self) -> str:
        return f"{self.name}:{self.batch}"

    def job(self, ranks: int, steps: int, device: str = "cpu", batches: int = 4) -> list[object]:
        """The flags of ddp_training and of pytorch_ddp.py that train this model."""
        return [
            "--json",
            "--device",
            device,
            "--dataset",
            "synthetic",
            "--layers",
            ",".join(map(str, self.widths)),
            "--classes",
            self.widths[-1],
            "--batch-size",
            self.batch,
            "--samples",
            batches * ranks * self.batch,
            "--max-steps",
            steps,
        ]

    def steps(self, ranks: int, seconds: float, least: int, most: int) -> int:
        """About how many steps fit into `seconds`, within limits."""
        guess = 1e-3 + max(1.0, ranks / CORES) * 6 * self.parameters * self.batch / 60e9
        return int(min(most, max(least, seconds / guess)))


class Rounds(dict[Key, list[Any]]):
    """Candidate -> its row of each round. A candidate's key begins with its case."""

    def values_of(self, key: Key, field: str) -> list[float]:
        return [row[field] for row in self.get(key, []) if row.get(field) is not None]

    def median(self, key: Key, field: str = "step_ms") -> float | None:
        return self.known_median(key, field) if self.values_of(key, field) else None

    def known_median(self, key: Key, field: str = "step_ms") -> float:
        """Of a candidate that is always there."""
        return statistics.median(self.values_of(key, field))

    def ratio(self, above: Key, below: Key, field: str = "step_ms") -> str:
        """The ratio of two medians, and the range of the ratios in single rounds."""
        each = [a / b for a, b in zip(self.values_of(above, field), self.values_of(below, field)) if b]
        text = ratio(self.median(above, field), self.median(below, field))
        return f"{text} ({min(each):.2f} to {max(each):.2f})" if len(each) > 1 else text


def ratio(a: float | None, b: float | None) -> str:
    return f"{a / b:.2f}" if a and b else "-"


def number(value: float | None) -> str:
    """A number with about three digits."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def table(head: list[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [head, ["---"] * len(head)] + [[str(cell) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def wrapped(line: str) -> str:
    """Wraps prose to the width of a screen; tables stay as they are."""
    return (
        line
        if line.startswith("|")
        else textwrap.fill(
            line,
            118,
            subsequent_indent="  " if line.startswith("- ") else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


class Word:
    title = ""  # of the table's page
    targets = ""  # the programs to build
    quick = ""  # the flags that --quick adds
    rounds = 3
    needs = ""  # what must be true of PyTorch; empty if it is not a candidate

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.commands: dict[str, Command] = {}
        self.data: dict[str, object] = {}  # what the JSON file keeps: every round's values
        self.chart = ""  # the SVG at the top of the page
        self.products = ""  # what multiplies our matrices, if anything does
        self.python, self.torch = "", ""
        for python in options.python if self.needs else ():
            version = first_line(
                python, "-c", f"import torch, torch.distributed; assert {self.needs}; print(torch.__version__)"
            )
            if version:
                self.python, self.torch = python, version
                break
            say(f"left out: {python} has no PyTorch for this (choose others with --python)")

    @classmethod
    def parser(cls, name: str) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            prog=f"./learn bench {name}", description=cls.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        cls.add_flags(parser.add_argument)
        parser.add_argument("--rounds", type=at_least(1, "round"), default=cls.rounds, help="runs of every candidate")
        parser.add_argument(
            "--python",
            nargs="+",
            default=[os.environ.get("PYTHON", "python3")],
            help="Python interpreters; the first that has PyTorch is used",
        )
        parser.add_argument("--output", type=pathlib.Path, help="folder for the table")
        return parser

    @classmethod
    def add_flags(cls, add: AddFlag) -> None:
        raise NotImplementedError

    def tables(self) -> list[str]:
        raise NotImplementedError

    @staticmethod
    def add_models(add: AddFlag, models: list[str], flag: str = "--models") -> None:
        add(
            flag,
            type=Model,
            nargs="+",
            metavar="WIDTHS:BATCH",
            default=list(map(Model, models)),
            help="layer widths and samples per rank; default " + " ".join(models),
        )

    def mpirun(self, ranks: int, program: str | pathlib.Path, *flags: object) -> list[object]:
        """The command that starts one of our programs, or of PyTorch's."""
        start = [self.python, program] if program == PYTORCH_DDP else [self.options.bin / program]
        return ["mpirun", "-np", ranks, *start, *flags]

    def turns(
        self,
        what: str,
        cases: Sequence[Key],
        candidates: Callable[..., Mapping[str, Command]],
        measure: Callable[[Command], Row | list[Row]] = last_row,
        rounds: int | None = None,
    ) -> Rounds:
        """Measures the candidates of all cases in turn, so that whatever else this machine does
        meets all of them. candidates(*case) returns {name: command}; measure(command), a row."""
        results = Rounds()
        rounds = rounds or self.options.rounds
        for index in range(rounds):
            for case in cases:
                say(f"{what}: round {index + 1} of {rounds}, {', '.join(map(str, case))}")
                for name, command in candidates(*case).items():
                    # The page shows one command of each program.
                    paths = [word for word in map(str, command) if word.startswith("/")]
                    self.commands.setdefault(paths[-1] if paths else name, command)
                    results.setdefault((*case, name), []).append(measure(command))
        self.data[what] = [{"case": case, "rounds": rows} for case, rows in results.items()]
        return results

    def write(self, name: str) -> None:
        """Measures, and writes NAME.md and its chart, NAME.svg, into the folder of results, NAME.md to
        standard output, and every round's values to build/bench/NAME.json."""
        load = os.getloadavg()[0]
        lines = self.tables()
        with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
            cpu = re.search(r"model name\s*: (.*)", cpuinfo.read())
        git = first_line("git", "-C", HERE, "describe", "--always", "--dirty", "--exclude=*")
        torch = [f"PyTorch {self.torch}" if self.torch else "no PyTorch"] if self.needs else []
        facts = {
            "measured": f"{datetime.date.today().isoformat()}, at commit {git or 'unknown'}, load "
            f"{load:.1f} before the run",
            "processor": f"{cpu[1] if cpu else 'unknown'}, {CORES} cores",
            "software": ", ".join([first_line("mpirun", "--version"), *torch]),
            **({"our products": self.products} if self.products else {}),
            "commands": "; ".join(f"`{shown(command)}`" for command in self.commands.values()),
        }
        file = name.replace("-", "_")
        text = "\n".join(
            wrapped(line)
            for line in [
                f"# {self.title}",
                "",
                f"![{self.title}]({file}.svg)",
                "",
                f"Generated by `./learn bench {name}`; do not edit. {lines[0]} Medians of "
                f"{plural(self.options.rounds, 'round')}, the runs of all candidates interleaved.",
                "",
                *(f"- {key}: {value}" for key, value in facts.items()),
                "",
                *lines[1:],
                "",
            ]
        )
        data = json.dumps({"facts": facts, **self.data}, indent=1, default=str) + "\n"
        for path, content in (
            (self.options.output / f"{file}.md", text),
            (self.options.output / f"{file}.svg", self.chart.replace("\n", " ")),
            (self.options.bin.parent / "bench" / f"{file}.json", data),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        print(text)
