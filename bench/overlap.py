#!/usr/bin/env python3
"""./learn bench overlap: how much of the communication a step hides, on two hosts.

Two hosts on one machine, with a cable of 1 Gbit/s between them (tests/support/two_hosts.sh; needs
root). What is hidden is what the step gets shorter by, against the same step with --no-overlap:
a run alone cannot say, for communication beside computation takes longer than by itself. What else
happens on the machine can only add to a step, so for this difference each way's fastest round
counts; everything else is medians. What could be hidden at best is computed from the run without
overlap: every all-reduce as early as its bucket is full (05_ddp_training/data_parallel/overlap_bound.hpp). All
ways run in turns, several rounds.
Writes bench/results/overlap.md. Python's standard library only.
"""
import argparse
import pathlib
import subprocess
import sys

import measure
from measure import HERE, number, ratio, say, table

TWO_HOSTS = HERE.parent / "tests" / "support" / "two_hosts.sh"
DEEP = "64,512,512,512,512,512,512,10"
JOBS = [  # layers, samples per rank and step
    (DEEP, 1024), (DEEP, 2048), ("784,512,512,512,10", 1024)]
WAYS = {
    "--no-overlap": ["--no-overlap", "--algorithm", "auto"],
    "--overlap": ["--overlap", "--algorithm", "auto"],
    "--backend mpi --overlap": ["--backend", "mpi", "--overlap"],
    "--backend mpi-nonblocking": ["--backend", "mpi-nonblocking"],
    "--data-parallel naive": ["--data-parallel", "naive", "--no-overlap", "--algorithm", "auto"],
}


def job_of(text):
    layers, _, batch = text.partition(":")
    return layers.replace("-", ","), int(batch)


def bytes_of(layers):
    widths = [int(width) for width in layers.split(",")]
    return 4 * sum(i * o + o for i, o in zip(widths, widths[1:]))


class Overlap:
    def __init__(self, options):
        self.options = options
        self.python, self.torch = measure.first_torch(options.python)
        self.turns = measure.Turns()
        self.commands = {}

    def flags(self, job):
        layers, batch = job
        return ["--json", "--device", "cpu", "--dataset", "synthetic", "--layers", layers,
                "--classes", layers.split(",")[-1], "--batch-size", batch, "--samples", 4 * batch,
                "--max-steps", self.options.steps]

    def start(self, job, way, program):
        command = [TWO_HOSTS, "--rate", self.options.rate] + program + self.flags(job)
        if way in ("--overlap", "PyTorch DDP"):  # one of each: the rest differs by a flag
            self.commands.setdefault(way, command)
        row = measure.rows_of(command)[-1]
        row.pop("parameters", None)
        self.turns.add((job[0], job[1], way), row)

    def round(self, job):
        for way, flags in WAYS.items():
            self.start(job, way, [self.options.bin / "ddp_training"] + flags)
        if self.python:
            self.start(job, "PyTorch DDP", [self.python, HERE / "peers" / "pytorch_ddp.py",
                                            "--bucket-cap-mb", 1])

    def fastest(self, job, way):
        return min(self.turns.rows[(*job, way)], key=lambda row: row["step_ms"])

    def table(self, job):
        part = lambda way, field: self.turns.median((*job, way), field)
        blocking = self.fastest(job, "--no-overlap")
        hideable = blocking["hideable_comm_ms"]
        rows = []
        for way in [*WAYS, *(["PyTorch DDP"] if self.python else [])]:
            step = part(way, "step_ms")
            fastest = self.fastest(job, way)["step_ms"]
            saved = blocking["step_ms"] - fastest
            torch = way == "PyTorch DDP"
            compared = not torch and way != "--no-overlap"
            share = f"{100 * saved / hideable:.0f} %" if hideable > 0.01 * fastest else "-"
            rows.append([way if torch else f"`{way}`", number(step)]
                        + [number(part(way, field)) for field in
                           ("compute_ms", "comm_ms", "exposed_comm_ms")]
                        + [number(fastest), f"{saved:.1f}" if compared else "-", share if compared else "-",
                           ratio(step, part("--overlap", "step_ms"))])
        return table(["way", "step, ms", "compute", "communication", "exposed",
                      "fastest step", "saved",
                      "of what could be", "step / `--overlap`'s"], rows)

    def write(self, load):
        options = self.options
        lead = ["Written by `./learn bench overlap`; not by hand. Two hosts on one machine, one rank "
                f"each, a cable of {options.rate} between them.", f"Adam, {options.steps} steps a run, medians of {options.rounds} rounds, all ways in "
                "turns."]
        lines = []
        for job in options.jobs:
            layers, batch = job
            size = bytes_of(layers)
            hideable = self.fastest(job, "--no-overlap")["hideable_comm_ms"]
            lines += [f"## {layers.replace(',', '-')}, {batch} samples per rank", "",
                      f"{size / 2**20:.1f} MiB of gradients. Of their communication "
                      f"{number(hideable)} ms could be hidden.",
                      "", self.table(job), ""]
        lines += ["Saved: how much shorter the fastest step is than the fastest with `--no-overlap`. "
                  "Communication is the sum of the all-reduces' own", "times, which grow while "
                  "backward needs the same core; nobody sees those of MPI_Iallreduce. PyTorch's "
                  "step is its forward, backward and", "optimizer alone. The two hosts share the "
                  "cores: a rank's communication has none for itself."]
        about = measure.facts(load, self.commands.values(), PyTorch=self.torch or "not installed")
        measure.write(options, "overlap", "Overlap, measured", lead, lines, about,
                      {"rows": self.turns.json(("layers", "batch", "way"))})


def main():
    parser = argparse.ArgumentParser(prog="./learn bench overlap", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=job_of, nargs="+", default=JOBS,
                        help="LAYERS:BATCH, the layers' widths with - between them")
    parser.add_argument("--rate", default="1gbit", help="of the cable, as tc writes it")
    parser.add_argument("--steps", type=int, default=14, help="of each run")
    measure.add_flags(parser, rounds=5)
    options = parser.parse_args()
    if options.rounds < 1 or options.steps < 1 or any(batch < 1 for _, batch in options.jobs):
        parser.error("at least 1 round, 1 step, a batch of 1")
    if options.check_flags:
        return
    trial = subprocess.run([TWO_HOSTS, "--rate", options.rate, "true"], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    if trial.returncode != 0:
        sys.exit(trial.stdout.strip() or f"error: {TWO_HOSTS.name} failed: {trial.stderr[-2000:]}")
    load = measure.Load()
    overlap = Overlap(options)
    for index in range(options.rounds):
        for layers, batch in options.jobs:
            say(f"round {index + 1} of {options.rounds}: {layers}, {batch} samples per rank")
            overlap.round((layers, batch))
    overlap.write(load)


if __name__ == "__main__":
    main()
