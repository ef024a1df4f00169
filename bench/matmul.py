"""./learn bench matmul."""

from __future__ import annotations

import shlex
import statistics

import charts
from harness import AddFlag, Command, Row, Word, at_least, attempt, number, plural, rows_of, say, table

LIBRARIES = ["onednn", "openblas", "auto"]
PAIRS = [(784, 512), (512, 512), (512, 10), (784, 2048), (2048, 2048), (4096, 4096)]


class Matmul(Word):
    """Each matrix product of a layer, by each library and by the choice between them.

    With --also, the same by another build of matmul_perf, such as one in a chroot of another Debian:
    --also 'chroot FOLDER /course/build/bin/matmul_perf'."""

    title = "Matrix products on the CPU, measured"
    targets = "matmul_perf"
    quick = "--rounds 1 --rows 16 --threads 1"

    @classmethod
    def add_flags(cls, add: AddFlag) -> None:
        add("--rows", type=at_least(1, "row"), nargs="+", default=[1, 16, 64, 256], help="samples")
        add("--threads", type=at_least(1, "thread"), nargs="+", default=[1, 2], help="compute threads")
        add("--also", default="", metavar="COMMAND", help="runs another build of matmul_perf, on one thread")

    def candidates(self, threads: int) -> dict[str, Command]:
        programs = {"": [str(self.options.bin / "matmul_perf")]}
        if self.options.also and threads == 1:
            programs["also "] = shlex.split(self.options.also)
        flags = ["--rows", ",".join(map(str, self.options.rows)), "--threads", threads]
        return {
            f"{where}{library}": [*program, *flags, "--matmul", library]
            for where, program in programs.items()
            for library in self.libraries
            if not where or library != "auto"
        }

    def measure(self, command: Command) -> list[Row]:
        rows: list[Row] = []
        for pair in PAIRS:
            rows += rows_of([*command, "--layers", ",".join(map(str, pair))])
        return rows

    def has(self, library: str) -> bool:
        done = attempt([self.options.bin / "matmul_perf", "--layers", "2,2", "--matmul", library])
        if done.returncode != 0:
            say(f"left out: {done.stderr.strip()}")
        return done.returncode == 0

    def tables(self) -> list[str]:
        self.libraries = [library for library in LIBRARIES if self.has(library)]
        runs = self.turns("matmul", [(threads,) for threads in self.options.threads], self.candidates, self.measure)
        names: dict[tuple[object, ...], str] = {}
        rates: dict[tuple[object, ...], dict[tuple[object, ...], list[float]]] = {}
        for key, rounds in runs.items():
            for rows in rounds:
                for row in rows:
                    names[key] = row["matmul"]
                    where = (row["rows"], row["in"], row["out"], row["product"])
                    rates.setdefault(where, {}).setdefault(key, []).append(row["gflops"])
        lines = [
            "A layer from `in` to `out` numbers multiplies three times: forward (rows x in by in x out), for the "
            "gradient of its weight (out x rows by rows x in; *added*: to what is there, as when gradients "
            "accumulate), and for that of its input (rows x out by out x in). Higher is better."
        ]
        groups: list[charts.Group] = []
        for threads in self.options.threads:
            keys = [key for key in runs if key[0] == threads]
            heads = [str(key[1]).replace("also ", "other: ") for key in keys]
            lines += [
                f"## GFLOP/s, {plural(threads, 'thread')}",
                "",
                *(f"- {head}: {names[key]}" for head, key in zip(heads, keys)),
                "",
                table(
                    ["rows x in x out", "product", *heads],
                    [
                        [
                            " x ".join(map(str, where[:3])),
                            where[3],
                            *(number(statistics.median(of[key])) for key in keys),
                        ]
                        for where, of in rates.items()
                    ],
                ),
                "",
            ]
        threads = self.options.threads[0]
        for pair in PAIRS:
            for rows in self.options.rows[-2:]:
                sums = {
                    library: statistics.harmonic_mean(
                        [
                            statistics.median(of[threads, library])
                            for where, of in rates.items()
                            if where[:3] == (rows, *pair) and where[3] != "of weight, added"
                        ]
                    )
                    for library in self.libraries
                }
                groups.append((f"{rows} rows, {pair[0]} to {pair[1]}, all three products", sums, None))
        self.chart = charts.bars("Matrix products", "./learn bench matmul", "GFLOP/s", groups)
        return lines
