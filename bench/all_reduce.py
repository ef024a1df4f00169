#!/usr/bin/env python3
"""./learn bench all-reduce: our all-reduce, its alternatives, and memcpy.

The rounds are interleaved: each runs every setting once, so that other activity on the machine affects all of
them equally. The tables show the median round and, for each size, the best of MPI's settings.
Writes bench/results/all_reduce.md. Needs only Python's standard library.
"""
import argparse
import os
import pathlib
import statistics

import measure
from measure import HERE, ratio, rows_of, say

TUNED = {  # environment of mpirun: MCA parameters of Open MPI
    "single copy off": {"btl_vader_single_copy_mechanism": "none"},
    "recursive doubling": {"coll_tuned_allreduce_algorithm": "3"},
    "ring": {"coll_tuned_allreduce_algorithm": "4"},
    "Rabenseifner": {"coll_tuned_allreduce_algorithm": "6"},
}
for kib in (64, 256, 1024):
    segmented = {"coll_tuned_allreduce_algorithm": "5",
                 "coll_tuned_allreduce_algorithm_segmentsize": str(kib * 1024)}
    TUNED[f"segmented ring, {kib} KiB"] = segmented
    TUNED[f"segmented ring, {kib} KiB, single copy off"] = {
        **segmented, "btl_vader_single_copy_mechanism": "none"}
# The box in docs/running.md sets these variables so that the programs run on any machine.
# Measurements use MPI's defaults.
BOX = ("OMPI_MCA_mpi_yield_when_idle", "OMPI_MCA_hwloc_base_binding_policy",
       "PRTE_MCA_hwloc_default_binding_policy")


def sweep(smallest, largest):
    sizes = []
    while smallest <= largest:
        sizes.append(smallest)
        smallest *= 4
    return sizes


def text_size(size):
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size} {unit}"
        size //= 1024
    return f"{size} GiB"


class Bench:
    def __init__(self, options):
        self.options = options
        self.sizes = sweep(options.min_bytes, options.max_bytes)
        self.python, self.torch = measure.first_torch(options.python)
        self.times = {}  # (ranks, name, bytes) -> microseconds of every round
        self.commands = {}

    def add(self, ranks, rows, rename=None):
        for row in rows:
            name = rename or row["name"]
            self.times.setdefault((ranks, name, row["bytes"]), []).append(row["time_us"])

    def mpirun(self, ranks, settings, only):
        environment = {key: value for key, value in os.environ.items() if key not in BOX}
        for key, value in settings.items():
            environment["OMPI_MCA_" + key] = value
            if key.startswith("coll_tuned"):
                environment["OMPI_MCA_coll_tuned_use_dynamic_rules"] = "1"
        command = ["mpirun", "-np", str(ranks), str(self.options.bin / "all_reduce_bench"),
                   "--only", only, "--min-bytes", str(self.sizes[0]),
                   "--max-bytes", str(self.sizes[-1]),
                   "--iterations", str(self.options.samples)]
        self.commands[only] = command
        return rows_of(command, environment)

    def round(self, ranks):
        self.add(ranks, self.mpirun(ranks, {}, "all"))
        for name, settings in TUNED.items():
            self.add(ranks, self.mpirun(ranks, settings, "mpi"), "mpi: " + name)
        if self.python:
            command = [self.python, str(HERE / "peers" / "gloo_all_reduce.py"), "--ranks",
                       str(ranks), "--sizes", ",".join(map(str, self.sizes)), "--samples",
                       str(max(3, self.options.samples // 3))]
            self.commands["gloo"] = command
            self.add(ranks, rows_of(command))

    def time(self, ranks, name, size):
        rounds = self.times.get((ranks, name, size))
        return statistics.median(rounds) if rounds else None

    def best_tuned(self, ranks, size):
        names = ["mpi"] + ["mpi: " + name for name in TUNED]
        return min((self.time(ranks, name, size), name) for name in names)

    def table(self, ranks):
        head = ["bytes", "auto, registered", "auto, ordinary", "ring", "Open MPI", "best tuned",
                "gloo", "memcpy", "auto / memcpy", "Open MPI / auto", "tuned / auto", "gloo / auto",
                "Open MPI / ordinary", "tuned / ordinary", "Open MPI / ring", "tuned setting"]
        lines = []
        for size in self.sizes:
            us = {name: self.time(ranks, name, size)
                  for name in ("auto", "auto-ordinary", "ring", "mpi", "gloo", "memcpy")}
            tuned, setting = self.best_tuned(ranks, size)
            number = lambda t: "-" if t is None else (f"{t:.2f}" if t < 100 else f"{t:.0f}")
            cells = [text_size(size), number(us["auto"]), number(us["auto-ordinary"]),
                     number(us["ring"]), number(us["mpi"]), number(tuned), number(us["gloo"]),
                     number(us["memcpy"]), ratio(us["auto"], us["memcpy"]),
                     ratio(us["mpi"], us["auto"]), ratio(tuned, us["auto"]),
                     ratio(us["gloo"], us["auto"]), ratio(us["mpi"], us["auto-ordinary"]),
                     ratio(tuned, us["auto-ordinary"]), ratio(us["mpi"], us["ring"]),
                     setting.removeprefix("mpi: ") if setting != "mpi" else "default"]
            lines.append(cells)
        return measure.table(head, lines)

    def write(self, load):
        lead = ["Generated by `./learn bench all-reduce`; do not edit. Microseconds per float32 sum, "
                f"of the slowest rank: the median of {self.options.rounds} rounds of "
                f"{self.options.samples} samples, with the runs of all candidates interleaved."]
        about = measure.facts(load, self.commands.values(), PyTorch=self.torch or "not installed",
                              **{"Open MPI's settings": "; ".join(TUNED)})
        lines = []
        for ranks in self.options.ranks:
            lines += [f"## {ranks} ranks on {os.cpu_count()} cores", "", self.table(ranks), ""]
        lines += ["`auto` uses registered memory except where the column says ordinary; the others "
                  "use ordinary memory. For memcpy, every rank copies this many bytes at the same "
                  "time. Best tuned is the fastest of Open MPI's settings for this size; the last "
                  "column names it."]
        rows = [{"ranks": r, "name": n, "bytes": b, "time_us": statistics.median(t), "rounds": t}
                for (r, n, b), t in sorted(self.times.items())]
        measure.write(self.options, "all_reduce", "All-reduce, measured", lead, lines, about,
                      {"rows": rows})


def main():
    cores = measure.cores()
    parser = argparse.ArgumentParser(prog="./learn bench all-reduce", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--ranks", type=int, nargs="+", default=[cores, 2 * cores])
    parser.add_argument("--min-bytes", type=int, default=1024)
    parser.add_argument("--max-bytes", type=int, default=64 << 20)
    measure.add_flags(parser, rounds=5)
    parser.add_argument("--samples", type=int, default=15, help="samples per run and size")
    options = parser.parse_args()
    if min(options.ranks) < 2 or options.rounds < 1 or options.samples < 1:
        parser.error("needs at least 2 ranks, 1 round and 1 sample")
    if options.min_bytes < 4 or options.min_bytes % 4 or options.max_bytes < options.min_bytes:
        parser.error("sizes must be multiples of 4 bytes, the smaller one first")

    if options.check_flags:
        return

    load = measure.Load()
    bench = Bench(options)
    for index in range(options.rounds):
        for ranks in options.ranks:
            say(f"round {index + 1} of {options.rounds}, {ranks} ranks")
            bench.round(ranks)
    bench.write(load)


if __name__ == "__main__":
    main()
