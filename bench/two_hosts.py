"""./learn bench overlap, and ./learn bench hosts: two hosts made of one machine, with a slow cable
between them (two_hosts.sh, which needs root)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import charts
from harness import (
    GLOO,
    HERE,
    PYTORCH_DDP,
    AddFlag,
    Command,
    Model,
    Rounds,
    Row,
    Word,
    at_least,
    number,
    plural,
    ratio,
    run,
    table,
)

TWO_HOSTS = HERE / "two_hosts.sh"
BUCKETS = ["--bucket-cap-mb", 1]  # of both, to compare like with like: PyTorch's default is 25
DEEP = "64-512-512-512-512-512-512-10"
WAYS = {
    "`--no-overlap`": ["--no-overlap", "--algorithm", "auto"],
    "`--overlap`": ["--overlap", "--algorithm", "auto"],
    "`--backend mpi --overlap`": ["--backend", "mpi", "--overlap"],
}
ALL_REDUCES = {
    "hierarchical": ["hierarchical"],
    "ring": ["ring"],
    "ring, ranks placed in turns": ["ring", "--round-robin"],
    "rabenseifner": ["rabenseifner"],
    "Open MPI": ["mpi"],
}


class Overlap(Word):
    """How much of its communication a step hides, on two hosts, beside PyTorch DDP.

    The hidden time is how much shorter a step is than with --no-overlap. One run alone cannot show it,
    because communication takes longer while the rank computes. Other activity on the machine can only
    lengthen a step, so this difference compares the fastest rounds; all other values are medians. The
    hideable time is computed from the run without overlap, as if every all-reduce began as soon as its
    bucket was full (05_ddp_training/trainer/timeline.hpp)."""

    title = "Overlap, measured"
    targets = "ddp_training"
    quick = "--rounds 1 --jobs 784-512-512-512-10:1024"
    rounds = 5
    needs = GLOO

    @classmethod
    def add_flags(cls, add: AddFlag) -> None:
        cls.add_models(add, [f"{DEEP}:1024", f"{DEEP}:2048", "784-512-512-512-10:1024"], "--jobs")
        add("--rate", default="1gbit", help="rate of the link, in tc's notation")
        add("--steps", type=at_least(1, "step"), default=14, help="steps of each run")

    def candidates(self, job: Model) -> dict[str, list[object]]:
        start = [TWO_HOSTS, "--rate", self.options.rate]
        flags = job.job(1, self.options.steps)
        ours = self.options.bin / "ddp_training"
        commands = {way: [*start, ours, *more, *BUCKETS, *flags] for way, more in WAYS.items()}
        if self.python:
            commands["PyTorch DDP"] = [*start, self.python, PYTORCH_DDP, *BUCKETS, *flags]
        return commands

    def rows(self, job: Model, runs: Rounds) -> Iterator[list[str]]:
        def fastest(way: str) -> Row:
            return min(runs[job, way], key=lambda row: row["step_ms"])

        blocking = fastest("`--no-overlap`")
        hideable = blocking["hideable_comm_ms"]
        for way in self.candidates(job):
            best, hidden = fastest(way)["step_ms"], "-"
            if way in list(WAYS)[1:]:
                saved = blocking["step_ms"] - best
                hidden = f"{saved:.1f} of {number(hideable)}"
                if hideable > 0.01 * best:
                    hidden += f" ({100 * saved / hideable:.0f} %)"
            yield [
                f"{job} {way}",
                *(
                    number(runs.median((job, way), field))
                    for field in ("step_ms", "compute_ms", "comm_ms", "exposed_comm_ms")
                ),
                number(best),
                hidden,
                runs.ratio((job, way), (job, "`--overlap`")),
            ]

    def tables(self) -> list[str]:
        options = self.options
        runs = self.turns("overlap", [(job,) for job in options.jobs], self.candidates)
        self.chart = charts.bars(
            "A step on two hosts",
            "./learn bench overlap",
            "ms",
            [
                (f"{job}", {way.strip("`"): runs.known_median((job, way)) for way in self.candidates(job)}, None)
                for job in options.jobs
            ],
        )
        return [
            "Two hosts on one machine, with one rank each and a link of "
            f"{options.rate} between them. Adam, {options.steps} steps per run.",
            table(
                [
                    "layers:batch variant",
                    "step, ms",
                    "compute",
                    "communication",
                    "exposed",
                    "fastest step",
                    "saved of hideable",
                    "step / `--overlap`'s",
                ],
                [row for job in options.jobs for row in self.rows(job, runs)],
            ),
            "",
            '"Saved" is how much shorter the fastest step is than the fastest one with '
            "`--no-overlap`. Communication is the sum of the times of all all-reduces, which "
            "take longer while backward needs the same core. PyTorch's step is only forward, "
            "backward and optimizer. The two hosts share the cores, so a rank's communication "
            "has no core of its own.",
        ]


class Hosts(Word):
    """All-reduces over a slow cable between two hosts, in time and in bytes.

    The bytes per all-reduce are what more all-reduces add to the cable's counter. The floor is the time
    in which the cable carries the tensor once in each direction, which every all-reduce among two hosts
    needs at least."""

    title = "Two hosts, measured"
    targets = "all_reduce_perf"
    quick = "--rounds 1 --sizes 16777216"
    rounds = 5

    @classmethod
    def add_flags(cls, add: AddFlag) -> None:
        add("--sizes", type=at_least(4, "bytes"), nargs="+", default=[1 << 20, 4 << 20, 16 << 20], help="bytes")
        add("--ranks-per-host", type=at_least(1, "rank"), default=2)
        add("--mbit", type=at_least(1, "Mbit/s"), default=1000, help="rate of the link")
        add("--iterations", type=at_least(1, "iteration"), default=9, help="all-reduces per run")

    def candidates(self, size: int) -> dict[str, list[object]]:
        options = self.options
        start = [
            TWO_HOSTS,
            "--ranks-per-host",
            options.ranks_per_host,
            "--rate",
            f"{options.mbit}mbit",
            "--count-bytes",
        ]
        return {
            name: [
                *start,
                *placement,
                options.bin / "all_reduce_perf",
                "--algorithm",
                algorithm,
                "--min-bytes",
                size,
                "--max-bytes",
                size,
                "--json",
                "--iterations",
                1 + options.iterations,
            ]
            for name, (algorithm, *placement) in ALL_REDUCES.items()
        }

    def measure(self, command: Command) -> Row:
        def once(command: Command) -> tuple[Row, int]:
            output = run(command)
            row = [line for line in output.splitlines() if line.startswith("{")][-1]
            return json.loads(row), int(re.findall(r"the cable carried (\d+) bytes", output)[0])

        _, before = once([*command[:-1], 1])
        row, after = once(command)
        return {"time_us": row["time_us"], "wrong": row["wrong"], "carried": (after - before) / self.options.iterations}

    def tables(self) -> list[str]:
        options = self.options
        runs = self.turns("hosts", [(size,) for size in options.sizes], self.candidates, self.measure)
        rows, groups = [], []
        for size in options.sizes:
            floor = 8 * size / options.mbit  # in microseconds
            times = {name: runs.known_median((size, name), "time_us") for name in ALL_REDUCES}
            groups.append((f"{size:,} bytes", {name: time / 1e3 for name, time in times.items()}, floor / 1e3))
            rows += [
                [
                    f"{size:,}",
                    name,
                    number(time / 1e3),
                    number(floor / 1e3),
                    ratio(time, floor),
                    f"{runs.known_median((size, name), 'carried') / size:.2f}",
                    runs.ratio((size, "hierarchical"), (size, name), "time_us"),
                ]
                for name, time in times.items()
            ]
        self.chart = charts.bars("An all-reduce over two hosts", "./learn bench hosts", "ms", groups)
        return [
            f"Two hosts on one machine, with {plural(options.ranks_per_host, 'rank')} each and a "
            f"link of {options.mbit} Mbit/s between them.",
            table(
                [
                    "bytes",
                    "all-reduce",
                    "time, ms",
                    "floor",
                    "time / floor",
                    "bytes to each host / tensor",
                    "hierarchical's time / time",
                ],
                rows,
            ),
            "",
            "The floor is the time in which the cable carries the tensor once. The bytes include "
            "the headers of TCP and its acknowledgements. The ring visits the ranks in order; if "
            "they are placed in turns, every message crosses the cable.",
        ]
