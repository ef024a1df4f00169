"""./learn bench training."""

from __future__ import annotations

import math
import subprocess
import sys
import time

import charts
from harness import (
    CORES,
    GLOO,
    PYTORCH_DDP,
    AddFlag,
    Command,
    Key,
    Model,
    Rounds,
    Row,
    Word,
    at_least,
    attempt,
    number,
    plural,
    ratio,
    shown,
    table,
)

MODELS = ["64-128-10:32", "784-512-512-10:64", "784-2048-2048-10:128", "784-4096-4096-10:256"]
# Phase -> (our time, the parts of its floor).
PHASES = {
    "compute": ("compute_ms", ["products_ms"]),
    "exposed": ("exposed_comm_ms", ["all_reduce_ms"]),
    "optimizer": ("optimizer_ms", ["adam_ms", "check_ms"]),
}


def seconds_to_first_step(command: Command) -> Row:
    """From the start of mpirun to the row of the first step, or else to the end."""
    begin, first = time.perf_counter(), None
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            if '"step":0' in line and first is None:
                first = time.perf_counter() - begin
    if process.returncode != 0:
        sys.exit(f"error: the command failed: {shown(command)}")
    return {"seconds": first or time.perf_counter() - begin}


class Training(Word):
    """Our training step beside PyTorch DDP's and beside its floor; the guards; the start.

    The floor is the time of the step's matrix products alone, in a library that both could use, plus
    that of the optimizer. Each phase also has a floor of its own (bench/training_floor.cpp)."""

    title = "A training step, measured"
    targets = "ddp_training training_floor"
    quick = "--rounds 1 --seconds 0.5 --eager --ranks 1 2 --models " + " ".join(MODELS[:2])
    needs = GLOO

    @classmethod
    def add_flags(cls, add: AddFlag) -> None:
        add("--ranks", type=at_least(1, "rank"), nargs="+", default=sorted({1, CORES, 2 * CORES}))
        cls.add_models(add, MODELS)
        add("--seconds", type=float, default=1.5, help="approximate length of a run")
        add("--eager", action="store_true", help="leave out torch.compile")

    def ours(self, ranks: int, *flags: object) -> list[object]:
        # The fastest algorithm, not the ring with which the course trains.
        return self.mpirun(ranks, "ddp_training", "--algorithm", "auto", *flags)

    def steps_of(self, model: Model, ranks: int) -> int:
        return model.steps(ranks, self.options.seconds, 8, 200)

    def candidates(self, model: Model, ranks: int, precision: str) -> dict[str, list[object]]:
        job = [*model.job(ranks, self.steps_of(model, ranks)), "--precision", precision]
        commands = {"ours": self.ours(ranks, *job)}
        if ranks > 1:
            commands["sharded"] = self.ours(ranks, "--shard", "optimizer", *job)
        if self.python:
            commands["PyTorch"] = self.mpirun(ranks, PYTORCH_DDP, *job, "--fastest")
            if ranks <= CORES and not self.options.eager:  # on more ranks, it takes minutes
                commands["compiled"] = [*commands["PyTorch"], "--compile"]
        commands["floor"] = self.mpirun(
            ranks,
            "training_floor",
            "--layers",
            ",".join(map(str, model.widths)),
            "--batch-size",
            model.batch,
            "--precision",
            precision,
        )
        return commands

    def has_bf16(self) -> bool:
        done = attempt(self.ours(1, "--device", "cpu", "--precision", "bf16", "--max-steps", 1))
        if done.returncode not in (0, 2):
            sys.exit(f"error: training in bf16 failed:\n{done.stderr[-2000:]}")
        return done.returncode == 0

    def step_tables(self, runs: Rounds, precision: str) -> list[str]:
        steps, phases = [], []
        drawn = max((n for n in self.options.ranks if n <= CORES), default=self.options.ranks[0])
        for model in self.options.models:
            for ranks in self.options.ranks:
                ours, sharded, eager, compiled, floors = (
                    (model, ranks, precision, who) for who in ("ours", "sharded", "PyTorch", "compiled", "floor")
                )

                def floor(*fields: str, floors: Key = floors) -> float:
                    return sum(runs.known_median(floors, field) for field in fields)

                theirs = min(
                    (key for key in (eager, compiled) if key in runs),
                    key=lambda key: runs.median(key) or math.inf,
                    default=eager,
                )
                least = floor("products_ms", "adam_ms")
                name = f"{model}, {plural(ranks, 'rank')}"
                setting = ", compiled" if theirs == compiled else ""
                steps.append(
                    [
                        name,
                        *(number(runs.median(key)) for key in (ours, sharded)),
                        number(runs.median(theirs)) + setting,
                        *(runs.ratio(theirs, key) for key in (ours, sharded)),
                        number(least),
                        ratio(runs.median(ours), least),
                    ]
                )
                if ranks == drawn:
                    who = {"ours": ours, "ours, sharded": sharded, "PyTorch": theirs}
                    self.groups.append(
                        (
                            f"{name}, {precision}",
                            {name: runs.known_median(key) for name, key in who.items() if key in runs},
                            least,
                        )
                    )
                if ranks > CORES:
                    continue
                pairs = [(runs.median(ours, field), floor(*parts)) for field, parts in PHASES.values()]
                phases.append(
                    [
                        name,
                        *(f"{number(a)} / {number(b)} = {ratio(a, b)}" for a, b in pairs),
                        number(floor("gflops")),
                        number(floor("gbs")),
                    ]
                )
        return [
            f"## One step, {precision}, milliseconds, {CORES} cores",
            "",
            table(
                [
                    "layers:batch",
                    "ours",
                    "sharded",
                    "PyTorch",
                    "PyTorch / ours",
                    "PyTorch / sharded",
                    "floor",
                    "ours / floor",
                ],
                steps,
            ),
            "",
            f"### Each phase / its floor, {precision}",
            "",
            table(["layers:batch", *PHASES, "GFLOP/s", "GB/s"], phases),
            "",
        ]

    def guard_table(self) -> list[str]:
        # Only one step in a hundred pays for the guards, so this compares means (not medians) over
        # a multiple of 100 steps. As in every run, the first five steps are not counted.
        ranks, models = min(CORES, 2), self.options.models[:2]

        def candidates(model: Model) -> dict[str, list[object]]:
            hundreds = max(2, 2 * self.steps_of(model, ranks) // 100)
            on = self.ours(ranks, *model.job(ranks, 100 * hundreds + 5))
            return {"on": on, "off": [*on, "--timeout", 0, "--check-replicas", 0]}

        runs = self.turns("guards", [(model,) for model in models], candidates, rounds=2 * self.options.rounds + 1)
        rows = []
        for model in models:
            on, off = (model, "on"), (model, "off")
            means = [1e3 * ranks * model.batch / runs.known_median(key, "samples_per_second") for key in (on, off)]
            rows.append([model.name, *map(number, means), runs.ratio(off, on, "samples_per_second")])
        return [
            f"## What the guards cost on {plural(ranks, 'rank')}, mean milliseconds",
            "",
            table(["layers", "on", "off", "on / off"], rows),
            "",
            "Off: `--timeout 0 --check-replicas 0`. The target is <= 1.01. If the rounds "
            "differ by more than that, this machine cannot measure so small a cost.",
            "",
        ]

    def start_table(self) -> list[str]:
        flags = ["--json", "--device", "cpu", "--dataset", "synthetic", "--max-steps", 2]
        commands = {"`mpirun true`": ["mpirun", "-np", 4, "true"], "ours": self.ours(4, *flags)}
        if self.python:
            commands["PyTorch"] = self.mpirun(4, PYTORCH_DDP, *flags)
        runs = self.turns("start", [()], lambda: commands, seconds_to_first_step)
        rows = [[who, f"{runs.median((who,), 'seconds'):.2f}"] for who in commands]
        return [
            "## From `mpirun -np 4` to the first step, seconds",
            "",
            table(["who", "seconds"], rows),
            "",
            "The default model; the target is < 0.5.",
        ]

    def tables(self) -> list[str]:
        options = self.options
        precisions = ["fp32", "bf16"] if self.has_bf16() else ["fp32"]
        runs = self.turns(
            "step",
            [
                (model, ranks, precision)
                for model in options.models
                for ranks in options.ranks
                for precision in precisions
            ],
            self.candidates,
        )
        self.products = next(rows[0]["matmul"] for (*_, who), rows in runs.items() if who == "ours")
        lines = [
            "Adam, one thread per rank. Our step includes everything from the start of a step "
            "to the start of the next: the batch, the mean loss over the ranks, and a line of "
            'JSON. "Sharded" is ours with `--shard optimizer`. PyTorch\'s step is only '
            "forward, backward and optimizer, with a fused optimizer and a static graph; in "
            "bf16, autocast. It first tries gradients as views of buckets or not, batched "
            "copies or not, gradients kept or dropped between steps, and takes the fastest. "
            + (
                "It was not compiled."
                if options.eager
                else "On up to as many ranks as cores it also ran compiled, and the tables show the faster of the two."
            )
        ]
        self.groups: list[charts.Group] = []
        for precision in precisions:
            lines += self.step_tables(runs, precision)
        self.chart = charts.bars("A training step", "./learn bench training", "ms", self.groups)
        lines += [
            "In brackets: the range of the ratios of single rounds. GFLOP/s is the rate of "
            "the products alone; GB/s is memcpy's, in as much memory as Adam uses. A step's "
            "floor is the time of its products and of Adam's 28 bytes per parameter at these "
            "rates. A phase's cell reads: ours / floor = ratio. The floors: for "
            "compute, the products; for exposed communication, one MPI_Allreduce; for the "
            "optimizer, its bytes at memcpy's rate, or its square roots and divisions alone "
            "if they take longer. Less than 1 means that the overlap or the caches win.",
            "",
        ]
        return lines + self.guard_table() + self.start_table()
