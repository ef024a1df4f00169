"""./learn bench pipeline: how much of a step the stages of pipeline_parallel idle."""
import json
import pathlib
import statistics
import tempfile

import charts
from harness import Word, at_least, run, table

STEPS = 12


def idle_share(command):
    """The median step's share, from the trace: waits for messages, and a stage's time after its last
    task. The first stage begins and ends a step."""
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace.json"
        run([*command, "--trace", trace])
        events = [event for event in json.loads(trace.read_text("utf-8"))["traceEvents"]
                  if event.get("cat") == "phase" or event["name"] == "MPI_Recv"]
    spans = {(stage, is_task): sorted(
        (event["ts"], event["ts"] + event["dur"]) for event in events
        if event["pid"] == stage and (event["cat"] == "phase") == is_task)
        for stage in range(2) for is_task in (False, True)}
    shares, each = [], len(spans[0, True]) // STEPS
    for first in range(each, len(spans[0, True]), each):  # without the first step
        begin, end = spans[0, True][first][0], spans[0, True][first + each - 1][1]
        idle = end - spans[1, True][first + each - 1][1]
        for stage in range(2):
            idle += sum(max(0, min(end, to) - max(begin, since)) for since, to in spans[stage, False])
        shares.append(idle / 2 / (end - begin))
    return {"idle": statistics.median(shares)}


class Pipeline(Word):
    """The share of a step that two stages idle, beside (p - 1) / (m + p - 1)."""

    title = "Idle stages of a pipeline"
    targets = "pipeline_parallel"
    quick = "--rounds 1 --values 8 --width 512"

    @classmethod
    def add_flags(cls, add):
        add("--values", type=at_least(1, "micro-batch"), nargs="+", default=[8, 16, 24],
            help="micro-batches per step")
        add("--width", type=int, default=2048, help="of the large layers")

    def tables(self):
        # With these layers, the two stages take equally long. Wide ones compute long per message.
        layers = "784,32,{0},{0},{0},{0},{0},32,10".format(self.options.width)
        runs = self.turns(
            "pipeline", [(m,) for m in self.options.values],
            lambda m: {schedule: self.mpirun(
                2, "pipeline_parallel", "--layers", layers, "--batch-size", 64 * m,
                "--micro-batches", m, "--steps", STEPS, "--schedule", schedule)
                for schedule in ("gpipe", "1f1b")}, idle_share)
        percent = lambda share: f"{100 * share:.1f}"
        self.chart = charts.bars("Idle stages of a pipeline", "./learn bench pipeline", "%", [
            (f"{m} micro-batches", {schedule: 100 * runs.median((m, schedule), "idle")
                                    for schedule in ("gpipe", "1f1b")}, 100 / (m + 1))
            for m in self.options.values])
        rows = [[m, percent(1 / (m + 1)), *(percent(runs.median((m, schedule), "idle"))
                                            for schedule in ("gpipe", "1f1b"))]
                for m in self.options.values]
        return ["Two ranks, micro-batches of 64 rows; idle time in % of a step.",
                table(["micro-batches", "by the formula", "GPipe", "1F1B"], rows), "",
                "Two stages (p = 2) idle for p - 1 of m + p - 1 turns. Messages and uneven stages "
                "add to that."]
