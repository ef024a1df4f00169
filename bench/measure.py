"""Shared by the scripts of ./learn bench: runs, facts about the machine, tables and charts.

Needs only Python's standard library.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
TWO_HOSTS = HERE.parent / "tests" / "support" / "two_hosts.sh"


def run(command, environment=None, limit=600):
    """Runs a command that must succeed, and returns its standard output."""
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        sys.exit(f"error: the command took more than {limit} s: {' '.join(command)}")
    except OSError as problem:
        sys.exit(f"error: {command[0]} cannot be started: {problem.strerror}")
    if done.returncode != 0:
        sys.exit(f"error: the command failed: {' '.join(command)}\n{done.stderr[-2000:]}")
    return done.stdout


def rows_of(command, environment=None, limit=600):
    """The JSON rows that a program prints."""
    return [json.loads(line) for line in run(command, environment, limit).splitlines()
            if line.startswith("{")]


def require_two_hosts(rate):
    """Ends the benchmark with a sentence if this machine cannot set up two hosts."""
    trial = subprocess.run([TWO_HOSTS, "--rate", rate, "true"], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    if trial.returncode != 0:
        sys.exit(trial.stdout.strip() or f"error: {TWO_HOSTS.name} failed: {trial.stderr[-2000:]}")


def first_line(command):
    """The first line that a command prints; empty if it fails or does not exist."""
    try:
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
        return done.stdout.splitlines()[0].strip() if done.returncode == 0 else ""
    except (OSError, IndexError):
        return ""


def torch_version(python):
    """The version of an interpreter's PyTorch; empty without PyTorch or without gloo."""
    return first_line([python, "-c", "import torch, torch.distributed as d; "
                       "assert d.is_gloo_available(); print(torch.__version__)"])


def first_torch(pythons):
    """(interpreter, version) of the first interpreter that has PyTorch with gloo, or ("", "")."""
    for python in pythons:
        version = torch_version(python)
        if version:
            return python, version
        say(f"left out: {python} has no PyTorch with gloo (choose others with --python)")
    return "", ""


def add_flags(parser, rounds, python=True):
    """Adds the flags that all benchmarks share."""
    parser.add_argument("--rounds", type=int, default=rounds, help="runs of every candidate")
    if python:
        parser.add_argument("--python", nargs="+", default=[os.environ.get("PYTHON", "python3")],
                            help="Python interpreters with PyTorch")
    parser.add_argument("--output", default=HERE / "results", help="folder for the tables")
    # ./learn bench may run two scripts, and first checks that both of them accept the flags.
    parser.add_argument("--check-flags", action="store_true", help=argparse.SUPPRESS)


def cores():
    return len(os.sched_getaffinity(0))


def processor():
    try:
        for line in open("/proc/cpuinfo", encoding="utf-8"):
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return "unknown processor"


class Load:
    """How busy other processes have kept the cores since this object was made.

    A load average would include our own ranks.
    """

    def __init__(self):
        self.before = os.getloadavg()[0]
        self.begin = self.now()

    @staticmethod
    def now():
        try:
            words = open("/proc/stat", encoding="utf-8").readline().split()[1:9]
        except OSError:
            return None
        user, nice, system, idle, wait, irq, soft, steal = map(int, words)
        ticks = os.sysconf("SC_CLK_TCK")
        ours = sum(os.times()[:4]) * ticks
        return {"all": user + nice + system + idle + wait + irq + soft + steal,
                "others": user + nice + system + irq + soft - ours, "stolen": steal}

    def text(self):
        now = self.now()
        if now is None or self.begin is None:
            return f"{self.before:.1f} before the run"
        spent = {key: now[key] - self.begin[key] for key in now}
        share = lambda key: f"{100 * max(0, spent[key]) / max(1, spent['all']):.0f} %"
        return (f"{self.before:.1f} before the run; other processes used {share('others')} of the "
                f"cores' time, and the hypervisor {share('stolen')}")


def facts(load, commands=(), **more):
    """The facts listed above the tables."""
    commit = first_line(["git", "-C", HERE, "describe", "--always", "--dirty", "--exclude=*"])
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit or "unknown",
        "processor": f"{processor()}, {cores()} cores",
        "MPI": first_line(["mpirun", "--version"]),
        **more,
        "load": load.text(),
        "commands": "; ".join(f"`{shown(command)}`" for command in commands),
    }


def shown(command):
    """A command as a reader can type it, without this machine's folders."""
    words = command.split() if isinstance(command, str) else [str(word) for word in command]
    return " ".join(pathlib.Path(word).name if word.startswith("/") else word for word in words)


def ratio(a, b, digits=2):
    return f"{a / b:.{digits}f}" if a and b else "-"


def number(value):
    """A number with about three digits."""
    if value is None:
        return "-"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def table(head, lines):
    rows = [head, ["---"] * len(head)] + [[str(cell) for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def picture(lines, width=60):
    """A bar chart. A line is (label, [(letter, amount), ...], note); the longest bar has `width`."""
    longest = max(sum(amount for _, amount in parts) for _, parts, _ in lines) or 1.0
    labels = max(len(label) for label, _, _ in lines)
    text = []
    for label, parts, note in lines:
        bar, total = "", 0.0
        for letter, amount in parts:
            total += max(0.0, amount)
            bar += letter * (round(width * total / longest) - len(bar))
        text.append(f"  {label:>{labels}} |{bar:<{width}}| {note}")
    return "```\n" + "\n".join(text) + "\n```"


class Turns:
    """Values of several candidates, measured alternately so that other activity on the machine affects
    all of them equally."""

    def __init__(self):
        self.rows = {}  # candidate -> one row per round

    def add(self, key, row):
        self.rows.setdefault(key, []).append(row)

    def median(self, key, field):
        values = [row[field] for row in self.rows.get(key, []) if row.get(field) is not None]
        return statistics.median(values) if values else None

    def json(self, names):
        """Every candidate with all its rounds."""
        return [{**dict(zip(names, key)), "rounds": rows} for key, rows in self.rows.items()]


def say(text):
    """Prints progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def wrapped(line):
    """Wraps prose to the width of a screen; tables and charts stay as they are."""
    if line.startswith(("|", "```")) or len(line) <= 118:
        return line
    return textwrap.fill(line, 118, subsequent_indent="  " if line.startswith("- ") else "",
                         break_long_words=False, break_on_hyphens=False)


def write(options, name, title, lead, lines, about, data):
    """Writes NAME.md into the folder of results and to standard output, and every round's values to
    build/bench/NAME.json."""
    text = "\n".join(map(wrapped, [f"# {title}", "", *lead, "",
                                   *(f"- {key}: {value}" for key, value in about.items()),
                                   "", *lines, ""]))
    raw = json.dumps({"facts": about, **data}, indent=1) + "\n"
    for path, content in ((pathlib.Path(options.output) / f"{name}.md", text),
                          (options.bin.parent / "bench" / f"{name}.json", raw)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    print(text)
