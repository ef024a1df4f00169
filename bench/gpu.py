#!/usr/bin/env python3
"""./learn bench gpu: our training step on GPUs compared with PyTorch's, and NCCL with nccl-tests.

Ours runs with and without its CUDA graph, PyTorch's DDP eagerly and as a captured graph, on the same
GPUs in interleaved rounds. The tables show medians. Writes bench/results/gpu.md. Needs only Python's
standard library; for the comparisons, an interpreter with PyTorch for CUDA (--python) and
all_reduce_perf of nccl-tests (--nccl-tests).
"""
import argparse
import pathlib
import re
import shutil
import subprocess

import measure
from measure import HERE, number, ratio, say, table
from training import model_of, name_of

MODELS = ["64-128-10:32", "784-512-512-512-10:64", "784-2048-2048-10:128", "784-4096-4096-10:256"]
OURS = {"ours": [], "ours, no graph": ["--no-graph"]}
PYTORCH = {"PyTorch": [], "PyTorch, graph": ["--graph"]}


def gpus_here(trainer):
    """(number of GPUs, what they are), or (0, the reason why there is none)."""
    done = subprocess.run(["mpirun", "-np", "1", trainer, "--device", "cuda", "--dataset",
                           "synthetic", "--samples", "64", "--max-steps", "1"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["the trainer failed"]
        return 0, said[0]
    found = re.search(r"\((\d+) (emulated )?GPUs? on this host\)", done.stdout)
    count = int(found.group(1)) if found else 1
    if found and found.group(2):
        return count, "emulated, so all times are meaningless"
    return count, measure.first_line(["nvidia-smi", "--query-gpu=name,driver_version",
                                      "--format=csv,noheader"]) or "unknown"


class Bench:
    def __init__(self, options):
        self.options = options
        self.steps = measure.Turns()
        self.reduces = measure.Turns()
        self.commands = {}
        self.python, self.torch = "", ""
        for python in options.python:
            version = measure.first_line([python, "-c", "import torch; assert torch.cuda.is_available(); "
                                          "print(torch.__version__)"])
            if version:
                self.python, self.torch = python, version
                break
            say(f"left out: {python} has no PyTorch that finds a GPU (choose others with --python)")
        self.peer = shutil.which(options.nccl_tests)
        if not self.peer:
            say(f"left out: {options.nccl_tests} of nccl-tests is not there (--nccl-tests)")

    def last_row(self, what, ranks, command):
        command = ["mpirun", "-np", ranks] + command
        self.commands.setdefault(what, command)
        return measure.rows_of(command)[-1]

    def compare(self, model, ranks):
        layers = ",".join(map(str, model.layers))
        key = (name_of(model), ranks)
        # The GPU is idle for a moment at the end of an epoch, so an epoch has 64 batches.
        ours = [self.options.bin / "ddp_training", "--json", "--device", "cuda", "--dataset",
                "synthetic", "--layers", layers, "--classes", model.layers[-1], "--batch-size",
                model.batch, "--samples", 64 * ranks * model.batch, "--max-steps", self.options.steps]
        for name, flags in OURS.items():
            row = self.last_row(name, ranks, ours + flags)
            self.steps.add(key + (name,), {field: row[field] for field in (
                "step_ms", "host_waits_per_step", "allocations_per_step", "graph_nodes")})
        theirs = [self.python, HERE / "peers" / "pytorch_gpu.py", "--layers", layers, "--batch-size",
                  model.batch, "--steps", self.options.steps]
        for name, flags in PYTORCH.items() if self.python else ():
            try:
                row = self.last_row(name, ranks, theirs + flags)
            except SystemExit as problem:  # not every PyTorch can capture DDP's step
                say(f"left out: {name}: {problem}")
                continue
            self.steps.add(key + (name,), {"step_ms": row["step_ms"]})

    def reduce(self, ranks):
        command = ["mpirun", "-np", ranks, self.options.bin / "all_reduce_perf", "--json", "--device",
                   "cuda", "--algorithm", "nccl", "--min-bytes", 1024, "--max-bytes",
                   self.options.max_bytes]
        self.commands.setdefault("all-reduce", command)
        for row in measure.rows_of(command):
            self.reduces.add((ranks, row["bytes"], "ours"), {"time_us": row["time_us"]})
        if not self.peer:
            return
        # A thread per GPU, and the host waits after each call (-z), as ours does.
        command = [self.peer, "-t", ranks, "-g", 1, "-z", 1, "-b", 1024, "-e", self.options.max_bytes, "-f", 4]
        self.commands.setdefault("nccl-tests", command)
        for line in measure.run(command).splitlines():
            words = line.split()  # size count type op root, then out of place, then in place:
            if len(words) >= 13 and words[0].isdigit() and words[2] == "float":
                self.reduces.add((ranks, int(words[0]), "nccl-tests"), {"time_us": float(words[9])})

    def run(self):
        for index in range(self.options.rounds):
            for ranks in self.options.ranks:
                for model in self.options.models:
                    say(f"round {index + 1} of {self.options.rounds}, {name_of(model)}, ranks: {ranks}")
                    self.compare(model, ranks)
                self.reduce(ranks)

    def step_table(self, ranks):
        rows = []
        for model in self.options.models:
            key = (name_of(model), ranks)
            part = lambda name, field="step_ms": self.steps.median(key + (name,), field)
            ours = part("ours")
            rows.append([key[0], model.batch]
                        + [number(1e3 * time) if (time := part(name)) else "-"
                           for name in (*OURS, *PYTORCH)]
                        + [ratio(part(name), ours) for name in PYTORCH]
                        + [f"{part('ours', field):.0f}" for field in
                           ("graph_nodes", "host_waits_per_step", "allocations_per_step")])
        return table(["layers", "batch", *OURS, *PYTORCH, "PyTorch / ours", "its graph / ours",
                      "nodes", "waits", "allocations"], rows)

    def reduce_table(self):
        rows = []
        for ranks, size, who in self.reduces.rows:
            if who == "ours":
                times = [self.reduces.median((ranks, size, name), "time_us")
                         for name in ("ours", "nccl-tests")]
                rows.append([ranks, size] + [number(time) for time in times]
                            + [ratio(times[1], times[0])])
        return table(["ranks", "bytes", "ours", "nccl-tests", "nccl-tests / ours"], rows)

    def write(self, load, gpus):
        about = measure.facts(load, self.commands.values(), GPUs=gpus,
                              PyTorch=self.torch or "not installed, or without a GPU")
        lead = ["Generated by `./learn bench gpu`; do not edit. Adam, float32; medians of "
                f"{self.options.rounds} rounds, with the runs of all candidates interleaved. A step's "
                "time is that from its start on the GPU to the start of the next. Ours includes "
                "the copy of the batch from the host and the mean loss over the ranks; PyTorch's batches "
                "are in GPU memory."]
        lines = []
        for ranks in self.options.ranks:
            lines += [f"## One step, ranks: {ranks}, microseconds", "", self.step_table(ranks), ""]
        lines += ["Nodes are those of our graph; waits and allocations are those of the host in the "
                  "median step. PyTorch runs without torch.compile.", "",
                  "## All-reduce through NCCL, in place, microseconds", "",
                  "The host waits after each call. Ours is the median of the calls, with a process per "
                  "GPU; that of nccl-tests is their mean, with a thread per GPU.", "",
                  self.reduce_table()]
        measure.write(self.options, "gpu", "The GPU step, measured", lead, lines, about,
                      {"steps": self.steps.json(("layers", "ranks", "who")),
                       "all_reduce": self.reduces.json(("ranks", "bytes", "who"))})


def main():
    parser = argparse.ArgumentParser(prog="./learn bench gpu", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--ranks", type=int, nargs="+", help="default: 1, and one per GPU")
    parser.add_argument("--models", type=model_of, nargs="+", metavar="WIDTHS:BATCH",
                        default=[model_of(text) for text in MODELS],
                        help="widths and batch per rank; default " + " ".join(MODELS))
    measure.add_flags(parser, rounds=5)
    parser.add_argument("--steps", type=int, default=2000, help="steps per run")
    parser.add_argument("--max-bytes", type=int, default=256 << 20)
    parser.add_argument("--nccl-tests", default="all_reduce_perf", metavar="PROGRAM")
    options = parser.parse_args()
    if min((options.ranks or [1]) + [options.rounds, options.steps]) < 1:
        parser.error("needs at least 1 rank, 1 round and 1 step")
    if options.check_flags:
        return

    count, gpus = gpus_here(options.bin / "ddp_training")
    if count == 0:
        print(f"skipped: {gpus}")
        return
    options.ranks = options.ranks or sorted({1, count})
    load = measure.Load()
    bench = Bench(options)
    bench.run()
    bench.write(load, f"{count}: {gpus}")


if __name__ == "__main__":
    main()
