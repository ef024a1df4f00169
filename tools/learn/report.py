#!/usr/bin/env python3
"""./learn report: a page about a training run, from what `ddp_training --json` and `--trace` wrote.

Every number on the page comes from these files. The page needs no network and runs no script.
Python's standard library only.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from printable import printable  # noqa: E402

SENDS = re.compile(r"MPI_(I?[sbr]?send|Sendrecv(_replace)?)", re.I)
STYLE = """
:root { color-scheme: light dark; --page: #f6f5f1; --ink: #1d2126; --soft: #5d656e; --line: #dad7ce;
  --forward: #7fb0dc; --backward: #2a6db0; --exposed: #d5651a; --waits: #f3c9a8; --optimizer: #2c8a63;
  --data: #8462b5; --other: #a9adb2; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --ink: #e8e9ea; --soft: #a0a8b1;
  --line: #2f353c; --forward: #3f6f9f; --backward: #6cabe8; --exposed: #f08c43; --waits: #6b472b;
  --optimizer: #57b98d; --data: #ab8cdc; --other: #6b737c; } }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 64rem; background: var(--page);
  color: var(--ink); font: 1rem/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { overflow-wrap: anywhere; } h2 { margin: 2.5rem 0 .3rem; } p { margin: .4rem 0; }
.tiles { display: flex; flex-wrap: wrap; gap: .5rem 2.5rem; padding: 0; list-style: none; }
.tiles b { display: block; font-size: 1.5rem; } th, .tiles { color: var(--soft); }
.wide { overflow-x: auto; } svg { display: block; width: 100%; min-width: 44rem; }
text { fill: var(--soft); font-size: 12px; }
.curve { fill: none; stroke: var(--backward); stroke-width: 1.5; }
.point { fill: transparent; } .point:hover { fill: var(--exposed); }
table { border-collapse: collapse; } th { font-weight: 400; text-align: left; }
th, td { padding: .25rem 1.2rem .25rem 0; border-bottom: 1px solid var(--line); }
i { display: inline-block; height: .8em; background: var(--c); } rect { fill: var(--c); }
code { font-size: .85em; overflow-wrap: anywhere; }
"""


class BadInput(Exception):
    pass


def number(x: object) -> float | None:
    """x if it can be shown and drawn, else None. Quotients of two such numbers are finite."""
    if not isinstance(x, (int, float)) or isinstance(x, bool) or not 0 <= x <= 1e150:
        return None
    return x if x >= 1e-150 else 0


def table_of(x: object) -> dict[str, Any]:
    return x if isinstance(x, dict) else {}


def parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def read(path: str) -> str:
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"{path}: is not UTF-8 text") from None
    except OSError as problem:
        raise BadInput(f"{path or 'no file is named'}: {problem.strerror}") from None


class Run:
    """What --json or --metrics wrote: one line per step, one per tested epoch and, if the run
    ended, a final line."""

    def __init__(self, path: str) -> None:
        self.steps: list[dict[str, Any]] = []
        self.final: dict[str, Any] = {}
        self.torn = False
        self.accuracies: dict[str, float | None] = {}  # of the epochs
        lines = read(path).split("\n")
        for place, line in enumerate(lines, 1):
            row = parsed(line) if line.strip() else {}
            if not isinstance(row, dict):
                self.torn = place == len(lines) and bool(self.steps)  # killed while it wrote
                if not self.torn:
                    raise BadInput(f"{path}: line {place} is not a JSON object")
            elif row.get("final") is True:
                self.final = row
            elif type(row.get("step")) is int and number(row["step"]) is not None:
                self.steps.append({**row, "loss": number(row.get("loss"))})
            elif number(row.get("test_accuracy")) is not None:
                self.accuracies[text(row.get("epoch"))] = number(row["test_accuracy"])
        if not self.steps:
            raise BadInput(f"{path}: has no training step in the format of ddp_training --json")

    def get(self, key: str) -> float | None:
        return number(self.final.get(key))


class Event:
    def __init__(self, e: dict[str, Any]) -> None:
        self.rank, self.name, self.thread = e["pid"], str(e.get("name")), e.get("tid")
        self.begin, self.end = e["ts"] / 1e3, (e["ts"] + e["dur"]) / 1e3  # milliseconds
        self.phase, self.args = e.get("cat") == "phase", table_of(e.get("args"))


class Trace:
    """What --trace wrote: the phases and calls of each rank."""

    def __init__(self, path: str) -> None:
        content = table_of(parsed(read(path)))
        events = content.get("traceEvents")
        self.events = [
            Event(e)
            for e in (events if isinstance(events, list) else [])
            if isinstance(e, dict)
            and e.get("ph") == "X"
            and type(e.get("pid")) is int
            and None not in (number(e.get("ts")), number(e.get("dur")))
        ]
        if not self.events:
            raise BadInput(f"{path}: is not a trace in the format of ddp_training --trace")
        self.ranks = sorted({e.rank for e in self.events})
        self.dropped = table_of(table_of(content.get("otherData")).get("droppedEvents"))

    def typical_steps(self, count: int) -> tuple[int, list[float], int] | None:
        """One or two steps of typical length: the first one's place in the run, when each begins
        and the last one ends, and forward passes per step. None if all ranks finished none."""
        begins: dict[int, dict[int, float]] = {}  # the trace counts forward passes from 1
        for e in self.events:
            if e.phase and e.name == "forward" and type(e.args.get("number")) is int:
                begins.setdefault(e.args["number"] - 1, {})[e.rank] = e.begin
        passes = max(1, (max(begins, default=0) + 1) // count)  # --accumulate makes several
        starts = {
            n // passes: min(at.values()) for n, at in begins.items() if n % passes == 0 and len(at) == len(self.ranks)
        }
        if starts:  # the last step ends with its last phase
            starts[max(starts) + 1] = max(e.end for e in self.events if e.phase)
        for steps in (2, 1):
            found = sorted(
                (starts[n + steps] - starts[n], n) for n in starts if all(n + i in starts for i in range(steps + 1))
            )
            if found:
                n = found[len(found) // 2][1]
                return n, [starts[n + i] for i in range(steps + 1)], passes
        return None


# How numbers and charts become HTML.


def text(x: object) -> str:
    words = "yes" if x is True else "no" if x is False else "unknown" if x is None else x
    return html.escape(printable(words))


def digits(x: float) -> str:
    return f"{x:,}" if type(x) is int else f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def ms(x: float) -> str:
    return f"{digits(x)} ms"


def in_bytes(x: float) -> str:
    for unit, bits in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if x >= 1 << bits:
            return f"{x / (1 << bits):.4g} {unit}"
    return f"{x:g} bytes"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def as_accuracy(share: float) -> str:
    return f"{100 * share:.2f} %"


def value(x: float, write: Callable[[float], str] = digits) -> str:
    """A number, shown rounded; the page holds the exact one."""
    return f'<data value="{x!r}">{write(x)}</data>'


def section(title: str, head: Iterable[str], rows: Sequence[Iterable[str]], *more: str) -> str:
    """A table below `more`."""
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    heads = "".join(f"<th>{name}</th>" for name in head)
    table = f'<div class="wide"><table><tr>{heads}</tr>{cells}</table></div>' if rows else ""
    return f"<section><h2>{title}</h2>{''.join(more)}{table}</section>"


Part = tuple[str, str, float, str]  # colour, name, amount, what it is


def swatch(colour: str, share: float = 0.06) -> str:
    return f'<i style="--c:var(--{colour});width:{15 * share:.2f}rem"></i> '


def shares(parts: Sequence[Part], write: Callable[[float], str]) -> list[tuple[str, ...]]:
    """Rows for (colour, name, amount, what it is): a bar for each part of the whole."""
    whole = sum(x for _, _, x, _ in parts) or 1
    return [
        (swatch(colour, x / whole) + name, value(x, write), percent(x / whole), why) for colour, name, x, why in parts
    ]


def drawing(height: float, label: str, parts: Iterable[str]) -> str:
    return (
        f'<div class="wide" tabindex="0"><svg viewBox="0 0 960 {height}" role="img" '
        f'aria-label="{label}">{"".join(parts)}</svg></div>'
    )


def text_at(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text(words)}</text>'


def block(x: float, y: float, width: float, height: float, colour: str, title: str = "") -> str:
    return (
        f'<rect style="--c:var(--{colour})" x="{x:.2f}" y="{y}" width="{max(width, 0.4):.2f}" '
        f'height="{height}"><title>{text(title)}</title></rect>'
    )


# The page's sections.


def header(run: Run, trace: Trace | None, name: str) -> str:
    ranks, step, exposed = (run.get(key) for key in ("ranks", "step_ms", "exposed_comm_ms"))
    plain = run.get("plain_step_ms") or step  # whose part `exposed` is: replays are not timed
    said = [
        f"{ranks:,} ranks on {text(run.final.get('device'))}. " if ranks else "",
        f"{len(run.steps):,} training steps. ",
    ]
    if (ranks or 1) > 1 and type(run.final.get("replicas_identical")) is bool:
        said.append(
            "All replicas ended with the same parameters, bit for bit."
            if run.final["replicas_identical"]
            else "<b>The replicas ended with different parameters.</b>"
        )
    if not run.final:
        said.append(
            "<p>The file has no final line: it comes from <code>--metrics</code>, or the run was "
            "stopped. Accuracy, the time of a step, memory and settings are missing.</p>"
        )
    if run.torn:
        said.append("<p>The file's last line is incomplete and was left out.</p>")
    if not trace:
        said.append(
            "<p>No trace was given: run with <code>--trace TRACE.json</code> and name that file "
            "here to see the timeline and the messages between ranks.</p>"
        )
    elif ranks not in (None, len(trace.ranks)):
        said.append(
            f"<p>The trace has {len(trace.ranks)} ranks, but the run had {ranks}. Are both files from the same run?</p>"
        )
    for rank, count in (trace.dropped if trace else {}).items():
        said.append(f"<p>The trace lacks the first {text(count)} events of {text(rank)}.</p>")
    losses = [row["loss"] for row in run.steps if row["loss"] is not None]
    tiles: list[tuple[float | None, str, Callable[[float], str]]] = [
        (losses[-1] if losses else None, "loss of the last step", digits),
        (run.get("test_accuracy"), "test accuracy", as_accuracy),
        (step, "for one step (median)", ms),
        (run.get("samples_per_second"), "samples per second", digits),
        (exposed if plain else None, "of a step is spent waiting for messages", lambda x: percent(x / (plain or 1))),
        (run.get("bytes_sent_per_step"), "sent per rank and step", in_bytes),
    ]
    shown = "".join(f"<li><b>{value(x, write)}</b>{what}</li>" for x, what, write in tiles if x is not None)
    return f'<h1>{text(name)}</h1><p>{"".join(said)}</p><ul class="tiles">{shown}</ul>'


def loss_section(run: Run) -> str:
    known = [row for row in run.steps if row["loss"] is not None]
    high = max((row["loss"] for row in known if row["loss"] > 0), default=1)
    first, last = run.steps[0]["step"], max(run.steps[-1]["step"], run.steps[0]["step"] + 1)

    def at(row: dict[str, Any]) -> tuple[float, float]:
        return 60 + 880 * (row["step"] - first) / (last - first), 240 - 220 * row["loss"] / high

    parts = [
        text_at(60, 262, f"step {first}"),
        text_at(940, 262, f"step {last}", "end"),
        text_at(54, 24, digits(high), "end"),
        text_at(54, 244, "0", "end"),
        block(60, 240, 880, 1, "line"),
    ]
    path, pen = "", "M"  # where there is no number, the curve has a gap
    for row in run.steps:
        path += "" if row["loss"] is None else "{}{:.1f} {:.1f}".format(pen, *at(row))
        pen = "M" if row["loss"] is None else "L"
    parts.append(f'<path class="curve" d="{path}"/>')
    for row in known[:: 1 + len(known) // 500]:  # what appears where the reader points
        parts.append(
            '<circle class="point" cx="{:.1f}" cy="{:.1f}" r="5">'.format(*at(row))
            + f"<title>step {row['step']}, epoch {text(row.get('epoch'))}: loss "
            f"{row['loss']!r}</title></circle>"
        )
    epochs: dict[str, list[float]] = {}
    for row in known:
        epochs.setdefault(text(row.get("epoch")), []).append(row["loss"])
    gaps = len(run.steps) - len(known)
    head = ["epoch", "steps", "mean loss", "loss of its last step"]
    rows = [
        [epoch, value(len(losses)), value(sum(losses) / len(losses)), value(losses[-1])]
        for epoch, losses in epochs.items()
    ]
    if run.accuracies:  # of epochs whose last step was taken
        head.append("test accuracy")
        for cells in rows:
            accuracy = run.accuracies.get(cells[0])
            cells.append("" if accuracy is None else value(accuracy, as_accuracy))
    return section(
        "Loss",
        head,
        rows,
        "<p>The mean over all ranks, before each update.</p>",
        drawing(270, "Loss of each step", parts),
        f"<p>Steps without a finite loss: {gaps}. The curve has gaps there.</p>" if gaps else "",
    )


def time_section(run: Run) -> str:
    parts = [
        ("data", "data", run.get("data_ms"), "waiting for the next batch"),
        ("backward", "compute", run.get("compute_ms"), "forward and backward"),
        (
            "exposed",
            "exposed communication",
            run.get("exposed_comm_ms"),
            "all-reduces during which nothing is computed",
        ),
        ("optimizer", "optimizer", run.get("optimizer_ms"), "updating the parameters"),
    ]
    step, comm, said = run.get("step_ms"), run.get("comm_ms"), ""
    if (nodes := run.get("graph_nodes")) and step:
        said = (
            f"<p>One step took {value(step, ms)}. It was replayed as one graph of "
            f"{value(nodes)} kernels, whose parts are not timed: those below are of the "
            "steps that were not replayed.</p>"
        )
    known = [(colour, name, x, why) for colour, name, x, why in parts if x is not None]
    if len(known) < len(parts):
        known = []
    elif comm and run.get("ranks") != 1:
        said += (
            f"<p>The all-reduces of a step took {value(comm, ms)}. Backward hid "
            f"{percent(max(0, comm - known[2][2]) / comm)} of that time.</p>"
        )
    return (
        section("Where a step&rsquo;s time went", ("part", "median", "share", "what it is"), shares(known, ms), said)
        if known or said
        else ""
    )


def timeline_section(run: Run, trace: Trace) -> str:
    typical = trace.typical_steps(len(run.steps))
    if not typical:
        return section("Timeline", (), (), "<p>The trace holds no step that all ranks completed.</p>")
    place, edges, passes = typical
    scale, bottom = 790 / (edges[-1] - edges[0] or 1), 20 + 62 * len(trace.ranks)
    inside = [e for e in trace.events if e.end > edges[0] and e.begin < edges[-1]]
    parts = []
    for i, rank in enumerate(trace.ranks):
        parts.append(text_at(0, 57 + 62 * i, f"rank {rank}"))
        for y, name in ((30 + 62 * i, "compute"), (54 + 62 * i, "communication")):
            parts += [text_at(142, y + 14, name, "end"), block(150, y, 790, 20, "line")]
    for e in sorted(inside, key=lambda e: e.begin - e.end):  # short ones lie on top
        begin, end = (150 + (min(max(t, edges[0]), edges[-1]) - edges[0]) * scale for t in (e.begin, e.end))
        words = f"rank {e.rank}: {e.name}" + "".join(
            f", {key} {e.args[key]}" for key in ("tensor", "to", "from", "bytes") if key in e.args
        )
        words += f", {ms(e.end - e.begin)}, from {digits(e.begin - edges[0])} ms"
        y, computes = 30 + 62 * trace.ranks.index(e.rank), e.name in ("forward", "backward")
        if e.phase and (e.thread == 0 or computes):  # thread 0 is the one that computes
            parts.append(block(begin, y, end - begin, 20, e.name if computes else "waits", words))
        if not (e.phase and computes):
            top, height, colour = (y + 24, 20, "waits") if e.phase else (y + 28, 12, "exposed")
            parts.append(block(begin, top, end - begin, height, colour, words))
    for i, edge in enumerate(edges[:-1]):
        parts.append(text_at(150 + (edge - edges[0]) * scale, 20, f"step {run.steps[0]['step'] + place + i}"))
    parts.append(text_at(940, bottom + 20, ms(edges[-1] - edges[0]), "end"))
    colours = (
        ("forward", "forward"),
        ("backward", "backward"),
        ("waits", "all-reduce, or waiting for one"),
        ("exposed", "MPI call"),
    )
    said = "Steps of typical length. Point at a block to see what it is."
    said += f" A step has {passes} forward passes." if passes > 1 else ""
    title = f"{'Two steps' if len(edges) == 3 else 'One step'}, rank by rank"
    return section(
        title,
        (),
        (),
        f"<p>{said}</p>",
        drawing(bottom + 28, title, parts),
        "<p>" + " &ensp; ".join(swatch(colour) + name for colour, name in colours) + "</p>",
    )


def messages_section(trace: Trace) -> str:
    sent: dict[tuple[int, int], tuple[int, float]] = {}  # by sender and receiver: messages, bytes
    for e in trace.events:
        amount, to = number(e.args.get("bytes", 0)), e.args.get("to")
        if SENDS.fullmatch(e.name) and type(to) is int and amount is not None:
            messages, total = sent.get((e.rank, to), (0, 0))
            sent[e.rank, to] = messages + 1, total + amount
    return section(
        "Who sent how much to whom",
        ("", "messages", "bytes"),
        [
            (f"rank {source} to rank {to}", value(messages), value(total, in_bytes))
            for (source, to), (messages, total) in sorted(sent.items())
        ],
        "<p>Collectives of MPI and NCCL, and shared memory, are not counted: the trace cannot see "
        "how they are carried out.</p>",
    )


def memory_section(run: Run) -> str:
    held = {key: number(x) for key, x in table_of(run.final.get("memory")).items()}
    parts = [
        ("backward", "parameters", held.get("parameters_bytes"), "what is learned"),
        ("forward", "gradients", held.get("gradients_bytes"), "how the loss depends on each parameter"),
        ("optimizer", "optimizer state", held.get("optimizer_bytes"), "what it remembers of earlier steps"),
        ("data", "activations", held.get("activations_bytes"), "what forward keeps for backward"),
    ]
    known = [(colour, name, x, why) for colour, name, x, why in parts if x is not None]
    if len(known) < len(parts):
        return ""
    rest = (held.get("peak_bytes") or 0) - sum(x for _, _, x, _ in known)
    if rest > 0 and run.final.get("device") == "cpu":
        known.append(("other", "program, MPI and data", rest, "the rest of the largest rank's peak"))
    return section("Memory per rank", ("part", "size", "share", "what it is"), shares(known, in_bytes))


def settings_section(run: Run) -> str:
    rows = [
        (text(key.replace("_", " ")), text(x) if number(x) is None else value(x))
        for key, x in run.final.items()
        if key != "final" and not key.endswith("_ms") and not isinstance(x, (dict, list, type(None)))
    ]
    tensors = [
        (f"<code>{text(name)}</code>", value(p["l2"]), f"<code>{text(p.get('sha256'))}</code>")
        for name, p in table_of(run.final.get("parameters")).items()
        if number(table_of(p).get("l2")) is not None
    ]
    return (
        (
            section("Settings and results", ("name", "value"), rows)
            + section(
                "Parameters",
                ("tensor", "L2 norm", "SHA-256"),
                tensors,
                "<p>At the end of the run. Equal SHA-256 sums mean equal bits.</p>",
            )
        )
        if run.final
        else ""
    )


def page_of(run: Run, trace: Trace | None, name: str) -> str:
    traced = timeline_section(run, trace) + messages_section(trace) if trace else ""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
        f"'unsafe-inline'\">\n<title>Training run {text(name)}</title><style>{STYLE}</style></head>\n"
        f"<body>{header(run, trace, name)}{loss_section(run)}{time_section(run)}{traced}"
        f"{memory_section(run)}{settings_section(run)}</body></html>\n"
    )


def write_at_once(path: str, content: str) -> None:
    """Writes either the whole page or no page."""
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        raise BadInput(f"{path}: is not a file")
    try:
        # In a folder of our own, where nobody can have put a link under the draft's name.
        with tempfile.TemporaryDirectory(dir=os.path.dirname(target)) as folder:
            draft = pathlib.Path(folder, "page")
            draft.write_text(content, encoding="utf-8", errors="replace")
            draft.replace(target)
    except OSError as problem:
        raise BadInput(f"{path}: cannot be written: {problem.strerror}") from None


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"report: {message}")


def main() -> None:
    parser = Parser(prog="./learn report", allow_abbrev=False, description=__doc__)
    parser.add_argument("run", metavar="RUN.jsonl", help="what --json or --metrics wrote")
    parser.add_argument("--trace", metavar="TRACE.json", help="what --trace wrote during this run")
    parser.add_argument("-o", "--output", metavar="PAGE.html", help="default: RUN.html")
    asked = parser.parse_args()
    run, trace = Run(asked.run), Trace(asked.trace) if asked.trace else None  # first, because it may be no file
    output = asked.output or str(pathlib.Path(asked.run).with_suffix(".html"))
    for name in (asked.run, asked.trace):
        if name and os.path.exists(output) and os.path.samefile(output, name):
            raise BadInput(f"{output}: is the input; choose a different page with -o")
    write_at_once(output, page_of(run, trace, os.path.basename(asked.run)))
    print(printable(f"wrote {output}"))


if __name__ == "__main__":
    try:
        main()
    except BadInput as problem:
        print("error: " + printable(problem), file=sys.stderr)
        sys.exit(2)
