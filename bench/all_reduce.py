"""./learn bench all-reduce."""

from __future__ import annotations

import os
import statistics

import charts
from harness import CORES, GLOO, HERE, AddFlag, Row, Word, at_least, ratio, rows_of, table


def forced(algorithm: int, *settings: str) -> list[str]:
    return [
        "OMPI_MCA_coll_tuned_use_dynamic_rules=1",
        f"OMPI_MCA_coll_tuned_allreduce_algorithm={algorithm}",
        *settings,
    ]


SMALLEST = 1024  # bytes
NO_SINGLE_COPY = "OMPI_MCA_btl_vader_single_copy_mechanism=none"
TUNED = {
    "single copy off": [NO_SINGLE_COPY],
    "recursive doubling": forced(3),
    "ring": forced(4),
    "Rabenseifner": forced(6),
}  # settings of Open MPI
for kib in (64, 256, 1024):
    segments = f"OMPI_MCA_coll_tuned_allreduce_algorithm_segmentsize={kib * 1024}"
    TUNED[f"segmented ring, {kib} KiB"] = forced(5, segments)
    TUNED[f"segmented ring, {kib} KiB, single copy off"] = forced(5, segments, NO_SINGLE_COPY)
# ./learn sets these so that the programs run on any machine. Measurements use MPI's defaults.
BOX = ("OMPI_MCA_mpi_yield_when_idle", "OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy")
TIMES = ["registered", "ordinary", "ring", "Open MPI", "best tuned", "gloo", "memcpy"]
RATIOS = [
    ("registered", "memcpy"),
    ("Open MPI", "registered"),
    ("best tuned", "registered"),
    ("gloo", "registered"),
    ("Open MPI", "ordinary"),
    ("best tuned", "ordinary"),
]


Measured = tuple[int, str, int]  # ranks, name, bytes


class AllReduce(Word):
    """Our all-reduce, Open MPI's in all its settings, PyTorch's over Gloo, and memcpy."""

    title = "All-reduce, measured"
    targets = "all_reduce_perf"
    quick = "--rounds 1 --samples 5 --ranks 2 --max-bytes 4194304"
    rounds = 5
    needs = GLOO

    @classmethod
    def add_flags(cls, add: AddFlag) -> None:
        add("--ranks", type=at_least(2, "ranks"), nargs="+", default=[CORES, 2 * CORES])
        add("--max-bytes", type=at_least(SMALLEST, "bytes"), default=64 << 20)
        add("--samples", type=at_least(1, "sample"), default=15, help="samples per run and size")

    def candidates(self, ranks: int) -> dict[str, list[object]]:
        options = self.options

        def ours(algorithm: str, *flags: str) -> list[object]:
            return self.mpirun(
                ranks,
                "all_reduce_perf",
                "--json",
                "--device",
                "cpu",
                "--min-bytes",
                SMALLEST,
                "--max-bytes",
                options.max_bytes,
                "--iterations",
                options.samples,
                "--algorithm",
                algorithm,
                *flags,
            )

        commands = {
            "registered": ours("auto"),
            **{
                who: ours(algorithm, "--no-registered")
                for who, algorithm in {
                    "ordinary": "auto",
                    "ring": "ring",
                    "Open MPI": "mpi",
                    "memcpy": "memcpy",
                }.items()
            },
        }
        for name, settings in TUNED.items():
            commands[name] = ["env", *settings, *commands["Open MPI"]]
        if self.python:
            sizes = [SMALLEST]  # as sweep() in 01_send_recv/measure.hpp
            while sizes[-1] < options.max_bytes:
                sizes.append(min(4 * sizes[-1], options.max_bytes))
            commands["gloo"] = [
                self.python,
                HERE / "peers" / "gloo_all_reduce.py",
                "--ranks",
                ranks,
                "--samples",
                max(3, options.samples // 3),
                "--sizes",
                *sizes,
            ]
        return commands

    def tables(self) -> list[str]:
        environment = {name: value for name, value in os.environ.items() if name not in BOX}
        runs = self.turns(
            "all-reduce",
            [(ranks,) for ranks in self.options.ranks],
            self.candidates,
            lambda command: rows_of(command, environment),
        )
        rounds: dict[Measured, list[float]] = {}  # microseconds
        for (ranks, who), lists in runs.items():
            for row in (row for rows in lists for row in rows):
                rounds.setdefault((ranks, who, row["bytes"]), []).append(row["time_us"])
        times = {key: statistics.median(each) for key, each in rounds.items()}
        rows = [
            self.row(ranks, size, times)
            for ranks in self.options.ranks
            for size in sorted({size for each, _, size in times if each == ranks})
        ]
        first = [row for row in rows if row["ranks"] == self.options.ranks[0]]
        self.chart = charts.curves(
            f"An all-reduce on {first[0]['ranks']} ranks and {CORES} cores",
            "./learn bench all-reduce",
            {who: [(row["bytes"], row[who]) for row in first] for who in TIMES if first[0][who]},
        )

        def name(row: Row) -> str:
            return f"{row['ranks']} ranks, {row['bytes']:,}"

        def cell(us: float | None) -> str:
            return "-" if us is None else f"{us:.2f}" if us < 100 else f"{us:.0f}"

        return [
            f"Microseconds per float32 sum, of the slowest rank, on {CORES} cores, "
            f"{self.options.samples} samples a run.",
            table(["bytes", *TIMES], [[name(row), *(cell(row[who]) for who in TIMES)] for row in rows]),
            "",
            table(
                ["bytes", *(" / ".join(pair) for pair in RATIOS), "tuned setting"],
                [[name(row), *(ratio(row[a], row[b]) for a, b in RATIOS), row["setting"]] for row in rows],
            ),
            "",
            "Registered and ordinary: our `auto` on memory that all ranks can access, and on "
            "any memory; the others use ordinary memory. For memcpy, every rank copies this "
            "many bytes at the same time. Best tuned is the fastest of Open MPI's settings for "
            "this size; the last column names it.",
        ]

    @staticmethod
    def row(ranks: int, size: int, times: dict[Measured, float]) -> Row:
        us = {who: time for (n, who, bytes), time in times.items() if (n, bytes) == (ranks, size)}
        us["best tuned"], setting = min((us[who], who) for who in ("Open MPI", *TUNED))
        return {
            "ranks": ranks,
            "bytes": size,
            **{who: us.get(who) for who in TIMES},
            "setting": setting if setting in TUNED else "default",
        }
