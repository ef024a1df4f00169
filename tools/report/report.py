#!/usr/bin/env python3
"""./learn report: a page about a training run, from what `ddp_training --json` and `--trace` wrote.

Every number on the page comes from these files. The page needs no network and runs no script.
Python's standard library only.
"""
import argparse
import json
import os
import pathlib
import re
import string
import sys

sys.dont_write_bytecode = True  # nothing but the page is written
from charts import (LEFT, RIGHT, bars, block, curve, digits, drawing, escaped, in_bytes, legend,
                    line, milliseconds, named, percent, printable, table, text_at, value)

MOST_EVENTS = 6000  # drawn in the timeline
SENDS = re.compile(r"MPI_(I?[sbr]?send|Sendrecv(_replace)?)", re.I)


class BadInput(Exception):
    pass


def number(x):
    """x if it can be shown and drawn, else None. Quotients of two such numbers are finite."""
    if type(x) not in (int, float) or not abs(x) <= 1e150:
        return None
    return x if abs(x) >= 1e-150 else 0


def size(x):
    """x if it is a time or an amount, else None."""
    x = number(x)
    return x if x is not None and x >= 0 else None


def table_of(x):
    return x if isinstance(x, dict) else {}


def read(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"{path}: is not UTF-8 text")
    except OSError as problem:
        raise BadInput(f"{path}: {problem.strerror}")


def parsed(text):
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class Run:
    """What --json or --metrics wrote: one line per step and, if the run ended, a final line."""

    def __init__(self, path):
        self.steps, self.final, self.torn = [], {}, False
        lines = read(path).split("\n")
        for place, text in enumerate(lines, 1):
            found = parsed(text) if text.strip() else {}
            if not isinstance(found, dict):
                self.torn = place == len(lines) and bool(self.steps)  # killed while it wrote
                if not self.torn:
                    raise BadInput(f"{path}: line {place} is not a JSON object")
            elif found.get("final") is True:
                self.final = found
            elif type(found.get("step")) is int and number(found["step"]) is not None:
                self.steps.append(found)
        if not self.steps:
            raise BadInput(f"{path}: has no training step in the format of ddp_training --json")
        self.losses = [(s["step"], number(s.get("loss"))) for s in self.steps]
        self.epochs = {}
        for s, (step, loss) in zip(self.steps, self.losses):
            if loss is not None and type(s.get("epoch")) is int:
                self.epochs.setdefault(s["epoch"], []).append((step, loss))

    def get(self, key, default=None):
        found = size(self.final.get(key))
        return default if found is None else found


class Event:
    def __init__(self, e):
        self.rank, self.name, self.thread = e["pid"], str(e.get("name")), e.get("tid")
        self.begin, self.end = e["ts"] / 1e3, (e["ts"] + e["dur"]) / 1e3  # milliseconds
        self.phase, self.args = e.get("cat") == "phase", table_of(e.get("args"))


class Trace:
    """What --trace wrote: the phases and calls of each rank."""

    def __init__(self, path):
        content = table_of(parsed(read(path)))
        events = content.get("traceEvents")
        self.events = [Event(e) for e in (events if isinstance(events, list) else [])
                       if isinstance(e, dict) and e.get("ph") == "X" and type(e.get("pid")) is int
                       and number(e.get("ts")) is not None and size(e.get("dur")) is not None]
        if not self.events:
            raise BadInput(f"{path}: is not a trace in the format of ddp_training --trace")
        self.ranks = sorted({e.rank for e in self.events})
        self.dropped = table_of(table_of(content.get("otherData")).get("droppedEvents"))
        self.sent = {}  # by sender and receiver: messages, bytes
        for e in self.events:
            sent, to = size(e.args.get("bytes", 0)), e.args.get("to")
            if SENDS.fullmatch(e.name) and type(to) is int and sent is not None:
                messages, total = self.sent.get((e.rank, to), (0, 0))
                self.sent[e.rank, to] = messages + 1, total + sent

    def typical_steps(self, count):
        """One or two steps of typical length: the first one's place in the run, when each begins and
        the last one ends, and forward passes per step. None if all ranks finished none."""
        begins = {}
        for e in self.events:  # the trace counts forward passes from 1
            if e.phase and e.name == "forward" and type(e.args.get("number")) is int:
                begins.setdefault(e.args["number"] - 1, {})[e.rank] = e.begin
        passes = max(1, (max(begins, default=0) + 1) // count)  # --accumulate makes several
        starts = {n // passes: min(at.values()) for n, at in begins.items()
                  if n % passes == 0 and len(at) == len(self.ranks)}
        if starts:  # the last step ends with its last phase
            starts[max(starts) + 1] = max(e.end for e in self.events if e.phase)
        for steps in (2, 1):
            found = sorted((starts[n + steps] - starts[n], n) for n in starts
                           if all(n + i in starts for i in range(steps + 1)))
            if found:
                n = found[len(found) // 2][1]
                return n, [starts[n + i] for i in range(steps + 1)], passes
        return None


def section(title, *content):
    return f"<section><h2>{title}</h2>{''.join(content)}</section>"


def counted(count, noun):
    return f"{count:,} {noun}{'s' * (count != 1)}"


def header(run, name):
    ranks, step, exposed = (run.get(key) for key in ("ranks", "step_ms", "exposed_comm_ms"))
    plain = run.get("plain_step_ms", step)  # whose part `exposed` is
    said = f"{counted(ranks, 'rank')} on {escaped(run.final.get('device'))}. " if ranks else ""
    said += f"{counted(len(run.steps), 'training step')}, {counted(len(run.epochs), 'epoch')}. "
    if (ranks or 1) > 1 and type(run.final.get("replicas_identical")) is bool:
        said += ("All replicas ended with the same parameters, bit for bit."
                 if run.final["replicas_identical"] else
                 "<b>The replicas ended with different parameters.</b>")
    loss = next((loss for _, loss in reversed(run.losses) if loss is not None), None)
    tiles = [(loss, "loss of the last step", digits),
             (run.get("test_accuracy"), "test accuracy", lambda x: f"{100 * x:.2f} %"),
             (step, "for one step (median)", milliseconds),
             (run.get("samples_per_second"), "samples per second", lambda x: f"{x:,.0f}"),
             (exposed if plain else None, "of a step is spent waiting for messages",
              lambda x: percent(x / plain)),
             (run.get("bytes_sent_per_step"), "sent per rank and step", in_bytes)]
    shown = "".join(f"<li><b>{value(x, write)}</b>{what}</li>" for x, what, write in tiles
                    if x is not None)
    return (f'<p class="soft">Training run</p><h1>{escaped(name)}</h1><p>{said}</p>'
            f'<ul class="tiles">{shown}</ul>')


def missing(run, trace):
    notes = []
    if not run.final:
        notes.append("The file has no final line: it comes from <code>--metrics</code>, or the run "
                     "was stopped. Accuracy, the time of a step, memory and settings are missing.")
    if run.torn:
        notes.append("The file's last line is incomplete and was left out.")
    if not trace:
        notes.append("No trace was given. The timeline and the messages between ranks are missing. "
                     "Run with <code>--trace TRACE.json</code> and name that file here.")
    elif run.get("ranks") not in (None, len(trace.ranks)):
        notes.append(f"The trace has {len(trace.ranks)} ranks, but the run had {run.get('ranks')}. "
                     "Are both files from the same run?")
    for rank, count in (trace.dropped if trace else {}).items():
        notes.append(f"The trace lacks the first {escaped(count)} events of {escaped(rank)}.")
    listed = "".join(f"<li>{note}</li>" for note in notes)
    return f"<aside><h2>What is missing</h2><ul>{listed}</ul></aside>" if notes else ""


def loss_section(run):
    gaps = sum(loss is None for _, loss in run.losses)
    if gaps == len(run.losses):
        return section("Loss", "<p>No step has a finite loss.</p>")
    epoch_of = {s["step"]: s.get("epoch") for s in run.steps}
    means = {epoch: sum(loss for _, loss in e) / len(e) for epoch, e in run.epochs.items()}
    thick = [(e[0][0], e[-1][0], means[epoch]) for epoch, e in run.epochs.items() if len(e) > 1]
    content = [curve(run.losses, "loss",
                     lambda x, y: f"step {x}, epoch {epoch_of[x]}: loss {y!r}", thick),
               legend(("compute", "each step"), *[("exposed", "mean of an epoch")] * bool(thick))]
    if gaps:
        content.append(f"<p>Steps without a finite loss: {gaps}. The curve has gaps there.</p>")
    rates = [(s["step"], number(s.get("lr"))) for s in run.steps]
    if len({lr for _, lr in rates} - {None}) > 1:
        content.append(curve(rates, "learning rate", lambda x, y: f"step {x}: learning rate {y!r}"))
    rows = [(str(epoch), value(len(e)), value(means[epoch]), value(e[-1][1]))
            for epoch, e in run.epochs.items()]
    if rows:
        content.append("<details><summary>All epochs as a table</summary>" + table(
            ("epoch", "steps", "mean loss", "loss of its last step"), rows) + "</details>")
    return section("Loss", "<p>The mean over all ranks, before each update.</p>", *content)


def time_section(run):
    parts = [("data", "data", run.get("data_ms"), "waiting for the next batch"),
             ("compute", "compute", run.get("compute_ms"), "forward and backward"),
             ("exposed", "exposed communication", run.get("exposed_comm_ms"),
              "all-reduces during which nothing is computed"),
             ("optimizer", "optimizer", run.get("optimizer_ms"), "updating the parameters")]
    title = "Where a step&rsquo;s time went"
    typical, comm, exposed = run.get("step_ms"), run.get("comm_ms"), parts[2][2]
    # Steps that are replayed as a graph are not divided; the parts are those of the other steps.
    step = run.get("plain_step_ms", typical)
    replayed = ""
    if run.get("graph_nodes") and typical:
        replayed = (f"<p>One step took {value(typical, milliseconds)}. It was replayed as one graph "
                    f"of {value(run.get('graph_nodes'))} kernels, whose parts are not timed.</p>")
    if not step or any(ms is None for _, _, ms, _ in parts):
        return section(title, replayed) if replayed else ""
    rows, said = [("one step", [p[:3] for p in parts])], ""
    if comm and run.get("ranks") != 1:
        hidden = max(0, comm - exposed)
        rows.append(("all-reduces", [("exposed", "exposed", comm - hidden),
                                     ("waits", "hidden", hidden)]))
        said = (f"<p>The all-reduces of a step took {value(comm, milliseconds)}. Backward hid "
                f"{percent(hidden / comm)} of that time.</p>" +
                legend(("exposed", "exposed"), ("waits", "hidden behind backward")))
    return section(
        title, replayed, "<p>Medians over the " + ("steps that were not replayed" if replayed else "run") +
        ", without the first steps.</p>",
        bars(rows, "ms", f"One step of {milliseconds(step)}, by part"),
        table(("part", "time", "share", "what it is"),
              [(named(kind, name), value(ms, milliseconds), value(ms / step, percent), why)
               for kind, name, ms, why in parts]), said)


def timeline_section(run, trace):
    typical = trace.typical_steps(len(run.steps))
    if not typical:
        return section("Timeline", "<p>The trace holds no step that all ranks completed.</p>")
    place, edges, passes = typical
    title = f"{'Two steps' if len(edges) == 3 else 'One step'}, rank by rank"
    ranks, left, pitch = trace.ranks, LEFT + 90, 62
    scale = (RIGHT - left) / (edges[-1] - edges[0] or 1)
    inside = [e for e in trace.events if e.end > edges[0] and e.begin < edges[-1]]
    drawn = sorted(inside, key=lambda e: e.begin - e.end)[:MOST_EVENTS]  # short ones lie on top
    out, bottom = [], 20 + pitch * len(ranks)
    for i, rank in enumerate(ranks):
        y = 30 + pitch * i
        out.append(text_at(0, y + 27, f"rank {rank}", "start", "name"))
        for top, name in ((y, "compute"), (y + 24, "communication")):
            out.append(text_at(left - 8, top + 14, name, "end"))
            out.append(block(left, top, RIGHT - left, 20, "lane"))
    for e in drawn:
        begin, end = (left + (min(max(t, edges[0]), edges[-1]) - edges[0]) * scale
                      for t in (e.begin, e.end))
        words = [f"rank {e.rank}: {e.name}"]
        words += [f"{key} {e.args[key]}" for key in ("tensor", "to", "from") if key in e.args]
        if number(e.args.get("bytes")) is not None:
            words.append(in_bytes(e.args["bytes"]))
        words.append(f"{milliseconds(e.end - e.begin)}, from {digits(e.begin - edges[0])} ms")
        y, kind = 30 + pitch * ranks.index(e.rank), e.name if e.phase else "call"
        if kind not in ("forward", "backward", "call"):
            kind = "waits"
        if e.phase and (e.thread == 0 or kind != "waits"):  # thread 0 is the one that computes
            out.append(block(begin, y, end - begin, 20, kind, ", ".join(words)))
        if kind in ("waits", "call"):
            top, height = (y + 28, 12) if kind == "call" else (y + 24, 20)
            out.append(block(begin, top, end - begin, height, kind, ", ".join(words)))
    for i, edge in enumerate(edges[:-1]):
        x = left + (edge - edges[0]) * scale
        out += [line(x, 10, x, bottom, "edge"),
                text_at(x + 6, 20, f"step {run.steps[0]['step'] + place + i}", "start", "name")]
    out += [text_at(left, bottom + 20, "0 ms", "start"),
            text_at(RIGHT, bottom + 20, milliseconds(edges[-1] - edges[0]), "end")]
    said = "The trace does not name what fills the gaps: data, the optimizer, bookkeeping."
    if passes > 1:
        said += f" A step has {passes} forward passes."
    if len(drawn) < len(inside):
        said += f" Only the longest {len(drawn):,} of {len(inside):,} events are drawn."
    return section(title, "<p>These steps have a typical length. Point at a block to see what it is.</p>",
                   drawing(bottom + 28, title, out),
                   legend(("forward", "forward"), ("backward", "backward"),
                          ("waits", "all-reduce, or waiting for one"), ("call", "MPI call")),
                   f'<p class="soft">{said}</p>')


def messages_section(trace):
    title = "Who sent how much to whom"
    unseen = ("Collectives of MPI and NCCL, and shared memory, are not counted: the trace cannot "
              "show where they move data.")
    if not trace.sent:
        return section(title, f"<p>The trace holds no message between two ranks. {unseen}</p>")
    ranks = sorted({rank for pair in trace.sent for rank in pair} | set(trace.ranks))
    most = max(total for _, total in trace.sent.values()) or 1
    rows = []
    for source in ranks:
        cells = []
        for to in ranks:
            messages, total = trace.sent.get((source, to), (0, 0))
            more = (f' class="heat" style="--share:{10 + 45 * total / most:.0f}%" '
                    f'title="rank {source} to rank {to}: {messages:,} messages, {total:,} bytes"')
            cells.append(value(total, in_bytes, more) if messages else "&middot;")
        whole = sum(total for (sender, _), (_, total) in trace.sent.items() if sender == source)
        rows.append((f"rank {source}", *cells, value(whole, in_bytes)))
    count = sum(messages for messages, _ in trace.sent.values())
    return section(title, f"<p>The trace has {value(count)} messages, sent from rows to columns.</p>",
                   table(("", *(f"to {to}" for to in ranks), "in total"), rows),
                   f'<p class="soft">{unseen}</p>')


def memory_section(run):
    held = {key: size(x) for key, x in table_of(run.final.get("memory")).items()}
    parts = [("compute", "parameters", "parameters", "what is learned"),
             ("forward", "gradients", "gradients", "how the loss depends on each parameter"),
             ("optimizer", "optimizer state", "optimizer", "what it remembers of earlier steps"),
             ("data", "activations", "activations", "what forward keeps for backward")]
    parts = [(kind, name, held.get(f"{key}_bytes"), why) for kind, name, key, why in parts]
    if any(x is None for _, _, x, _ in parts):
        return ""
    rest = (held.get("peak_bytes") or 0) - sum(x for _, _, x, _ in parts)
    if rest > 0 and run.final.get("device") == "cpu":
        parts.append(("other", "program, MPI and data", rest, "the rest of the largest rank's peak"))
    return section(
        "Memory per rank", "<p>What each rank holds.</p>",
        bars([("one rank", [(kind, name, x / 2**20) for kind, name, x, _ in parts])], "MiB",
             "Memory of one rank, by part"),
        table(("part", "size", "what it is"), [(named(kind, name), value(x, in_bytes), why)
                                               for kind, name, x, why in parts]))


def settings_section(run):
    words = {"True": "yes", "False": "no", "None": "none"}
    rows = [(escaped(key.replace("_", " ")), escaped(words.get(str(x), x))
             if number(x) is None else value(x, "{:,}".format))
            for key, x in run.final.items()
            if key != "final" and not key.endswith("_ms") and not isinstance(x, (dict, list))]
    rates = {number(s.get("lr")) for s in run.steps}
    if len(rates) == 1 and None not in rates:
        rows.append(("learning rate", value(*rates, "{:g}".format)))
    page = section("Settings and results", table(("name", "value"), rows)) if rows else ""
    tensors = [(f"<code>{escaped(name)}</code>", value(p["l2"]),
                f"<code>{escaped(p.get('sha256'))}</code>")
               for name, p in table_of(run.final.get("parameters")).items()
               if number(table_of(p).get("l2")) is not None]
    if tensors:
        page += section("Parameters", "<p>At the end of the run. Equal SHA-256 sums mean equal "
                        "bits.</p>", table(("tensor", "L2 norm", "SHA-256"), tensors))
    return page


def page_of(run, trace, name):
    body = header(run, name) + missing(run, trace) + loss_section(run) + time_section(run)
    if trace:
        body += timeline_section(run, trace) + messages_section(trace)
    body += memory_section(run) + settings_section(run)
    template = pathlib.Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    return string.Template(template).substitute(title=escaped(f"Training run {name}"), body=body)


def write_at_once(path, text):
    """Writes either the whole page or no page."""
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        raise BadInput(f"{path}: is not a file")
    draft = f"{target}.{os.getpid()}.part"
    try:
        try:
            with open(draft, "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
            os.replace(draft, target)
        finally:
            pathlib.Path(draft).unlink(missing_ok=True)
    except OSError as problem:
        raise BadInput(f"{path}: cannot be written: {problem.strerror}")


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise BadInput(f"report: {message}")


def main():
    parser = Parser(prog="./learn report", allow_abbrev=False, description=__doc__)
    parser.add_argument("run", metavar="RUN.jsonl", help="what --json or --metrics wrote")
    parser.add_argument("--trace", metavar="TRACE.json", help="what --trace wrote during this run")
    parser.add_argument("-o", "--output", metavar="PAGE.html", help="default: RUN.html")
    asked = parser.parse_args()
    output = asked.output or str(pathlib.Path(asked.run).with_suffix(".html"))
    run, trace = Run(asked.run), Trace(asked.trace) if asked.trace else None
    for name in filter(None, (asked.run, asked.trace)):
        if os.path.exists(output) and os.path.samefile(output, name):
            raise BadInput(f"{output}: is the input; choose a different page with -o")
    write_at_once(output, page_of(run, trace, os.path.basename(asked.run)))
    print(printable(f"wrote {output}"))


if __name__ == "__main__":
    try:
        main()
    except BadInput as problem:
        print("error: " + printable(problem), file=sys.stderr)
        sys.exit(2)
