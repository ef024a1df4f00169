"""./learn bench gpt."""

from __future__ import annotations

import math
import statistics

import charts
from harness import CORES, GLOO, HERE, AddFlag, Word, at_least, number, plural, ratio, table

TWIN = HERE.parent / "05_ddp_training/advanced/gpt/pytorch_twin.py"
WINDOWS, CONTEXT = 32, 64  # of all ranks together; tokens of a window
# Inputs and outputs of its linear layers: two blocks, and the logits.
WIDTHS = 2 * [64, 192, 64, 64, 64, 256, 256, 64] + [64, 75]


class GptStep(Word):
    """A step of the GPT beside its twin in PyTorch, and beside its products alone."""

    title = "A step of the GPT, measured"
    targets = "gpt_training gpt_floor gpt_overlap"
    quick = "--rounds 1 --steps 20 --eager --widths 64"
    needs = GLOO

    @classmethod
    def add_flags(cls, add: AddFlag) -> None:
        add("--ranks", type=at_least(1, "rank"), nargs="+", default=sorted({1, min(2, CORES)}))
        add("--steps", type=at_least(10, "steps"), default=150)
        add("--eager", action="store_true", help="leave out torch.compile")
        add("--widths", type=at_least(4, "numbers"), nargs="+", default=[64, 104, 256], help="whose overlap to measure")

    def candidates(self, ranks: int) -> dict[str, list[object]]:
        job = ["--max-steps", self.options.steps, "--batch-size", WINDOWS // ranks]
        commands = {"ours": self.mpirun(ranks, "gpt_training", *job, "--device", "cpu", "--json")}
        if self.python:
            start = [self.python, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
            commands["eager"] = [*start, TWIN, *job]
            if not self.options.eager:
                commands["compiled"] = [*commands["eager"], "--compile"]
        rows = WINDOWS // ranks * CONTEXT
        commands["products"] = self.mpirun(ranks, "gpt_floor", "--rows", rows, "--widths", ",".join(map(str, WIDTHS)))
        return commands

    def tables(self) -> list[str]:
        runs = self.turns("gpt", [(ranks,) for ranks in self.options.ranks], self.candidates)
        self.products = runs[self.options.ranks[0], "ours"][0]["matmul"]
        rows: list[list[str]] = []
        groups: list[charts.Group] = []
        for ranks in self.options.ranks:
            ours, floor = (ranks, "ours"), (ranks, "products")
            theirs = [key for key in ((ranks, "eager"), (ranks, "compiled")) if key in runs]
            better = min(theirs, key=lambda key: runs.median(key) or math.inf, default=(ranks, "eager"))
            step = runs.known_median(ours)
            rows.append(
                [
                    plural(ranks, "rank"),
                    number(step),
                    *(number(runs.median((ranks, who))) for who in ("eager", "compiled", "products")),
                    runs.ratio(better, ours),
                    ratio(step, runs.known_median(floor)),
                    f"{1000 * WINDOWS * CONTEXT / step:,.0f}",
                ]
            )
            who = {"ours": ours, "PyTorch": better}
            times = {name: runs.known_median(key) for name, key in who.items() if key in runs}
            groups.append((plural(ranks, "rank"), times, runs.known_median(floor)))
        self.chart = charts.bars("A step of the GPT", "./learn bench gpt", "ms", groups)
        return [
            f"A step has {WINDOWS} windows of {CONTEXT} tokens over all ranks; each rank has one thread. Both "
            "take batches from a loader, and print a line with the mean loss; PyTorch has a fused AdamW, and gradients "
            'as views of buckets, through Gloo. "Products" are those of the linear layers alone.',
            "## One step, milliseconds",
            "",
            table(
                [
                    "",
                    "ours",
                    "PyTorch",
                    "compiled",
                    "products",
                    "PyTorch / ours",
                    "ours / products",
                    "tokens per second",
                ],
                rows,
            ),
            "",
            "PyTorch / ours has the better one of the two, and in brackets the range of single rounds.",
            "",
            "## Overlap, by the model's width",
            "",
            *self.overlap(),
        ]

    def overlap(self) -> list[str]:
        link, windows = 1, 8
        job = ["--batch-size", windows, "--pretend-link", link]
        runs = self.turns(
            "overlap",
            [(width,) for width in self.options.widths],
            lambda width: {"gpt_overlap": self.mpirun(2, "gpt_overlap", "--width", width, *job)},
        )
        rows = []
        for width in self.options.widths:
            of_width = runs[width, "gpt_overlap"]
            compute, waits, hides = (
                statistics.median(row[name] for row in of_width) for name in ("compute_ms", "waits_ms", "hides_ms")
            )
            messages = waits - compute
            rows.append(
                [
                    *(f"{of_width[0][name]:,}" for name in ("width", "numbers", "buckets")),
                    *map(number, (compute, messages, hides - compute)),
                    f"{round(100 * (waits - hides) / messages)} %",
                ]
            )
        return [
            f"Forward and backward of {windows} windows on each of 2 ranks, on a pretended link of {link} Gbit/s; "
            "milliseconds. The messages are what a step takes longer with them, without overlap.",
            "",
            table(["width", "parameters", "buckets", "compute", "messages", "seen with overlap", "hidden"], rows),
        ]
