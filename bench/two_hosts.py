"""./learn bench overlap, and ./learn bench hosts: two hosts made of one machine, with a slow cable
between them (tests/support/two_hosts.sh, which needs root)."""
import json
import re

from harness import (GLOO, HERE, PYTORCH_DDP, Word, at_least, number, plural, ratio, run,
                     table)

TWO_HOSTS = HERE.parent / "tests" / "support" / "two_hosts.sh"
DEEP = "64-512-512-512-512-512-512-10"
WAYS = {"`--no-overlap`": ["--no-overlap", "--algorithm", "auto"],
        "`--overlap`": ["--overlap", "--algorithm", "auto"],
        "`--backend mpi --overlap`": ["--backend", "mpi", "--overlap"]}
ALL_REDUCES = {"hierarchical": ["hierarchical"], "ring": ["ring"],
               "ring, ranks placed in turns": ["ring", "--round-robin"],
               "rabenseifner": ["rabenseifner"], "Open MPI": ["mpi"]}


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
    def add_flags(cls, add):
        cls.add_models(add, [f"{DEEP}:1024", f"{DEEP}:2048", "784-512-512-512-10:1024"], "--jobs")
        add("--rate", default="1gbit", help="rate of the link, in tc's notation")
        add("--steps", type=at_least(1, "step"), default=14, help="steps of each run")

    def candidates(self, job):
        start = [TWO_HOSTS, "--rate", self.options.rate]
        flags = job.job(1, self.options.steps)
        commands = {way: [*start, self.options.bin / "ddp_training", *more, *flags]
                    for way, more in WAYS.items()}
        if self.python:
            commands["PyTorch DDP"] = [*start, self.python, PYTORCH_DDP, "--bucket-cap-mb", 1,
                                       *flags]
        return commands

    def table(self, job, runs):
        fastest = lambda way: min(runs[job, way], key=lambda row: row["step_ms"])
        blocking = fastest("`--no-overlap`")
        hideable = blocking["hideable_comm_ms"]
        rows = []
        for way in self.candidates(job):
            best = fastest(way)["step_ms"]
            saved, share = blocking["step_ms"] - best, hideable > 0.01 * best
            hidden = ["-", "-"]
            if way in list(WAYS)[1:]:
                hidden = [f"{saved:.1f}", f"{100 * saved / hideable:.0f} %" if share else "-"]
            rows.append([way, *(number(runs.median((job, way), field)) for field in
                                ("step_ms", "compute_ms", "comm_ms", "exposed_comm_ms")),
                         number(best), *hidden, runs.ratio((job, way), (job, "`--overlap`"))])
        return [f"## {job.name}, {job.batch} samples per rank", "",
                f"The gradients are {4 * job.parameters / 2**20:.1f} MiB. At best, "
                f"{number(hideable)} ms of their communication could be hidden.", "",
                table(["variant", "step, ms", "compute", "communication", "exposed", "fastest step",
                       "saved", "saved / hideable", "step / `--overlap`'s"], rows), ""]

    def tables(self):
        options = self.options
        runs = self.turns("overlap", [(job,) for job in options.jobs], self.candidates)
        lines = ["Two hosts on one machine, with one rank each and a link of "
                 f"{options.rate} between them. Adam, {options.steps} steps per run."]
        for job in options.jobs:
            lines += self.table(job, runs)
        return lines + [
            "\"Saved\" is how much shorter the fastest step is than the fastest one with "
            "`--no-overlap`. Communication is the sum of the times of all all-reduces, which take "
            "longer while backward needs the same core. PyTorch's step is only forward, backward "
            "and optimizer. The two hosts share the cores, so a rank's communication has no core "
            "of its own."]


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
    def add_flags(cls, add):
        add("--sizes", type=at_least(4, "bytes"), nargs="+", default=[1 << 20, 4 << 20, 16 << 20],
            help="bytes")
        add("--ranks-per-host", type=at_least(1, "rank"), default=2)
        add("--mbit", type=at_least(1, "Mbit/s"), default=1000, help="rate of the link")
        add("--iterations", type=at_least(1, "iteration"), default=9, help="all-reduces per run")

    def candidates(self, size):
        options = self.options
        start = [TWO_HOSTS, "--ranks-per-host", options.ranks_per_host, "--rate",
                 f"{options.mbit}mbit", "--count-bytes"]
        return {name: [*start, *placement, options.bin / "all_reduce_perf", "--algorithm",
                       algorithm, "--min-bytes", size, "--max-bytes", size, "--json",
                       "--iterations", 1 + options.iterations]
                for name, (algorithm, *placement) in ALL_REDUCES.items()}

    def measure(self, command):
        def once(command):
            output = run(command)
            row = [line for line in output.splitlines() if line.startswith("{")][-1]
            return json.loads(row), int(re.search(r"the cable carried (\d+) bytes", output)[1])

        _, before = once(command[:-1] + [1])
        row, after = once(command)
        return {"time_us": row["time_us"], "wrong": row["wrong"],
                "carried": (after - before) / self.options.iterations}

    def tables(self):
        options = self.options
        cases = [(size,) for size in options.sizes]
        runs = self.turns("hosts", cases, self.candidates, self.measure)
        lines = [f"Two hosts on one machine, with {plural(options.ranks_per_host, 'rank')} each "
                 f"and a link of {options.mbit} Mbit/s between them."]
        for size in options.sizes:
            floor = 8 * size / options.mbit  # in microseconds
            rows = []
            for name in ALL_REDUCES:
                time = runs.median((size, name), "time_us")
                carried = runs.median((size, name), "carried")
                rows.append([name, number(time / 1e3), f"{carried / size:.2f}", ratio(time, floor),
                             runs.ratio((size, "hierarchical"), (size, name), "time_us")])
            lines += [f"## {size} bytes", "",
                      f"The cable needs {number(floor / 1e3)} ms to carry the tensor once.", "",
                      table(["all-reduce", "time, ms", "bytes to each host / tensor",
                             "time / floor", "hierarchical's time / time"], rows), ""]
        return lines + ["The bytes include the headers of TCP and its acknowledgements. The ring "
                        "visits the ranks in order; if they are placed in turns, every message "
                        "crosses the cable."]
