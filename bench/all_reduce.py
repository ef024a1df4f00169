"""./learn bench all-reduce."""
import os
import statistics

from harness import CORES, GLOO, HERE, Word, at_least, ratio, rows_of, table


def forced(algorithm, *settings):
    return ["OMPI_MCA_coll_tuned_use_dynamic_rules=1",
            f"OMPI_MCA_coll_tuned_allreduce_algorithm={algorithm}", *settings]


SMALLEST = 1024  # bytes
NO_SINGLE_COPY = "OMPI_MCA_btl_vader_single_copy_mechanism=none"
TUNED = {"single copy off": [NO_SINGLE_COPY], "recursive doubling": forced(3), "ring": forced(4),
         "Rabenseifner": forced(6)}  # settings of Open MPI
for kib in (64, 256, 1024):
    segments = f"OMPI_MCA_coll_tuned_allreduce_algorithm_segmentsize={kib * 1024}"
    TUNED[f"segmented ring, {kib} KiB"] = forced(5, segments)
    TUNED[f"segmented ring, {kib} KiB, single copy off"] = forced(5, segments, NO_SINGLE_COPY)
# ./learn sets these so that the programs run on any machine. Measurements use MPI's defaults.
BOX = ("OMPI_MCA_mpi_yield_when_idle", "OMPI_MCA_hwloc_base_binding_policy",
       "PRTE_MCA_hwloc_default_binding_policy")
# A column that is a ratio -> the two times.
RATIOS = {"auto / memcpy": ("auto", "memcpy"), "Open MPI / auto": ("mpi", "auto"),
          "tuned / auto": ("tuned", "auto"), "gloo / auto": ("gloo", "auto"),
          "Open MPI / ordinary": ("mpi", "auto-ordinary"),
          "tuned / ordinary": ("tuned", "auto-ordinary"), "Open MPI / ring": ("mpi", "ring")}


class AllReduce(Word):
    """Our all-reduce, Open MPI's in all its settings, PyTorch's over Gloo, and memcpy."""

    title = "All-reduce, measured"
    targets = "all_reduce_bench"
    quick = "--rounds 1 --samples 5 --ranks 2 --max-bytes 4194304"
    rounds = 5
    needs = GLOO

    @classmethod
    def add_flags(cls, add):
        add("--ranks", type=at_least(2, "ranks"), nargs="+", default=[CORES, 2 * CORES])
        add("--max-bytes", type=at_least(SMALLEST, "bytes"), default=64 << 20)
        add("--samples", type=at_least(1, "sample"), default=15, help="samples per run and size")

    def candidates(self, ranks):
        options = self.options
        ours = self.mpirun(ranks, "all_reduce_bench", "--min-bytes", SMALLEST, "--max-bytes",
                           options.max_bytes, "--iterations", options.samples, "--algorithm")
        commands = {"ours": ours + ["all"]}
        for name, settings in TUNED.items():
            commands[name] = ["env", *settings, *ours, "mpi"]
        if self.python:
            sizes = [SMALLEST]  # as sweep() in 01_send_recv/measure.hpp
            while sizes[-1] < options.max_bytes:
                sizes.append(min(4 * sizes[-1], options.max_bytes))
            commands["gloo"] = [self.python, HERE / "peers" / "gloo_all_reduce.py",
                                "--ranks", ranks, "--samples", max(3, options.samples // 3),
                                "--sizes", *sizes]
        return commands

    def tables(self):
        environment = {name: value for name, value in os.environ.items() if name not in BOX}
        runs = self.turns("all-reduce", [(ranks,) for ranks in self.options.ranks], self.candidates,
                          lambda command: rows_of(command, environment))
        rounds = {}  # (ranks, name, bytes) -> microseconds
        for (ranks, who), lists in runs.items():
            for row in (row for rows in lists for row in rows):
                name = f"mpi: {who}" if who in TUNED else row["algorithm"]
                rounds.setdefault((ranks, name, row["bytes"]), []).append(row["time_us"])
        times = {key: statistics.median(each) for key, each in rounds.items()}
        lines = ["Microseconds per float32 sum, of the slowest rank, each run with "
                 f"{self.options.samples} samples."]
        for ranks in self.options.ranks:
            rows = [self.row(ranks, size, times) for size in
                    sorted({size for each, _, size in times if each == ranks})]
            lines += [f"## {ranks} ranks on {CORES} cores", "", table(
                ["bytes", "auto, registered", "auto, ordinary", "ring", "Open MPI", "best tuned",
                 "gloo", "memcpy", *RATIOS, "tuned setting"], rows), ""]
        return lines + [
            "`auto` uses registered memory except where the column says ordinary; the others use "
            "ordinary memory. For memcpy, every rank copies this many bytes at the same time. Best "
            "tuned is the fastest of Open MPI's settings for this size; the last column names it."]

    @staticmethod
    def row(ranks, size, times):
        us = {name: time for (n, name, bytes), time in times.items() if (n, bytes) == (ranks, size)}
        us["tuned"], setting = min((us[name], name) for name in us if name.startswith("mpi"))
        cell = lambda time: "-" if time is None else f"{time:.2f}" if time < 100 else f"{time:.0f}"
        return [f"{size:,}", *(cell(us.get(name)) for name in (
                    "auto", "auto-ordinary", "ring", "mpi", "tuned", "gloo", "memcpy")),
                *(ratio(us.get(a), us.get(b)) for a, b in RATIOS.values()),
                setting.removeprefix("mpi: ") if setting != "mpi" else "default"]
