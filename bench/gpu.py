"""./learn bench gpu."""

from __future__ import annotations

import sys

import charts
from harness import (
    PYTORCH_DDP,
    AddFlag,
    Command,
    Model,
    Row,
    Word,
    at_least,
    attempt,
    first_line,
    last_row,
    number,
    say,
    table,
)

MODELS = ["64-128-10:32", "784-512-512-512-10:64", "784-2048-2048-10:128", "784-4096-4096-10:256"]
OURS: dict[str, list[str]] = {"ours": [], "ours, no graph": ["--no-graph"]}
THEIRS: dict[str, list[str]] = {"PyTorch": [], "PyTorch compiled": ["--compile"], "PyTorch graph": ["--graph"]}


def row_if_possible(command: Command) -> Row:
    """Not every PyTorch can compile or capture DDP's step."""
    try:
        return last_row(command)
    except SystemExit as problem:
        if PYTORCH_DDP not in command:
            raise
        say(f"left out: {problem}")
        return {}


class Gpu(Word):
    """Our training step on GPUs, with and without its CUDA graph, beside PyTorch DDP's.

    PyTorch runs eagerly, compiled, and as a captured graph, if --python finds one that sees the GPU."""

    title = "The GPU step, measured"
    targets = "ddp_training"
    quick = "--rounds 1 --models 784-512-512-512-10:64"
    rounds = 5
    needs = "torch.cuda.is_available()"

    @classmethod
    def add_flags(cls, add: AddFlag) -> None:
        add("--ranks", type=at_least(1, "rank"), nargs="+", default=[1], help="one GPU for each")
        cls.add_models(add, MODELS)
        add("--steps", type=at_least(1, "step"), default=2000, help="steps per run")

    def candidates(self, model: Model, ranks: int) -> dict[str, list[object]]:
        # The GPU is idle for a moment at the end of an epoch, so an epoch has 64 batches.
        job = model.job(ranks, self.options.steps, "cuda", batches=64)
        commands = {who: self.mpirun(ranks, "ddp_training", *job, *flags) for who, flags in OURS.items()}
        if self.python:
            commands |= {who: self.mpirun(ranks, PYTORCH_DDP, *job, *flags) for who, flags in THEIRS.items()}
        return commands

    def tables(self) -> list[str]:
        options = self.options
        done = attempt(self.mpirun(1, "ddp_training", "--device", "cuda", "--max-steps", 1))
        if done.returncode != 0:
            print("skipped:", ((done.stderr or done.stdout).splitlines() or ["no GPU"])[0])
            sys.exit()
        gpu = (
            "emulated, so all times are meaningless"
            if "emulated GPU" in done.stdout
            else first_line("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
        )
        runs = self.turns(
            "step",
            [(model, ranks) for ranks in options.ranks for model in options.models],
            self.candidates,
            row_if_possible,
        )
        lines = [
            f"GPU: {gpu}. Adam, float32. A step's "
            "time is that from its start on the GPU to the start of the next. Ours includes "
            "the copy of the batch from the host and the mean loss over the ranks; PyTorch's "
            "batches are in GPU memory."
        ]
        groups: list[charts.Group] = []
        for ranks in options.ranks:
            rows = []
            for model in options.models:
                ours = (model, ranks, "ours")
                times = {who: 1e3 * time for who in (*OURS, *THEIRS) if (time := runs.median((model, ranks, who)))}
                groups.append((f"{model}, ranks: {ranks}", times, None))
                rows.append(
                    [
                        model,
                        *(number(times.get(who)) for who in (*OURS, *THEIRS)),
                        runs.ratio(
                            (
                                model,
                                ranks,
                                min((who for who in THEIRS if who in times), key=times.__getitem__, default="PyTorch"),
                            ),
                            ours,
                        ),
                        ", ".join(
                            f"{runs.median(ours, field):.0f}"
                            for field in ("graph_nodes", "host_waits_per_step", "allocations_per_step")
                        ),
                    ]
                )
            lines += [
                f"## One step, ranks: {ranks}, microseconds",
                "",
                table(["model", *OURS, *THEIRS, "fastest PyTorch / ours", "nodes, waits, allocations"], rows),
                "",
            ]
        self.chart = charts.bars("A step on GPUs", "./learn bench gpu", "µs", groups)
        return lines + ["Nodes are those of our graph; waits and allocations are those of the host in the median step."]
