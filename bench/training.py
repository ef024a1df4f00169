#!/usr/bin/env python3
"""./learn bench training: our training step compared with PyTorch DDP's and with the floor.

The floor is the time of the step's matrix products alone, in a library that both could use, plus
that of the optimizer. Each phase also has a floor of its own (bench/training_floor.cpp). It also measures
weak scaling, the cost of the guards, the start, and memory per rank. All candidates run in
interleaved rounds, and the tables show medians. Writes bench/results/training.md. Needs only
Python's standard library.
"""
import argparse
import collections
import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import measure
import memory_samples
from measure import HERE, number, ratio, say, table

Model = collections.namedtuple("Model", "layers batch")
MODELS = ["64-128-10:32", "784-512-512-10:64", "784-2048-2048-10:128", "784-4096-4096-10:256"]
# Our targets for two ranks, as multiples of PyTorch's speed. For one rank the target is 1.
WANTED = {"fp32": {"64-128-10": 20, "784-512-512-10": 3, "784-2048-2048-10": 1.5,
                   "784-4096-4096-10": 1.3},
          "bf16": {"784-512-512-10": 3, "784-2048-2048-10": 1.7, "784-4096-4096-10": 1.6}}
OURS = {"ours": [], "sharded": ["--shard", "optimizer"]}
# Phase -> (our time, the parts of its floor). Where the trainer does not measure a phase, our time is
# that of the same function in training_floor.
PHASES = {"data": ("data_ms", ["gather_ms"]),
          "compute": ("compute_ms", ["products_ms", "outputs_floor_ms", "loss_floor_ms"]),
          "outputs": ("outputs_ms", ["outputs_floor_ms"]),
          "loss": ("loss_ms", ["loss_floor_ms"]),
          "exposed": ("exposed_comm_ms", ["all_reduce_ms"]),
          "optimizer": ("optimizer_ms", ["adam_floor_ms", "check_floor_ms"]),
          "Adam": ("adam_ms", ["adam_floor_ms"]),
          "check": ("check_ms", ["check_floor_ms"])}


def model_of(text):
    try:
        layers, batch = text.split(":")
        model = Model([int(width) for width in layers.split("-")], int(batch))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' must look like 784-512-10:64") from None
    if len(model.layers) < 2 or min(*model.layers, model.batch) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' has no layer or no sample")
    return model


def name_of(model):
    return "-".join(map(str, model.layers))


def parameters_of(model):
    return sum(i * o + o for i, o in zip(model.layers, model.layers[1:]))


def needed_mib(model):
    """The size of the parameters, their gradients and Adam's two states, of each layer's output and
    its gradient, and of the batch."""
    numbers = 4 * parameters_of(model)
    numbers += model.batch * (2 * sum(model.layers[1:]) + model.layers[0])
    return 4 * numbers / 2**20


class Bench:
    def __init__(self, options):
        self.options = options
        self.turns = measure.Turns()
        self.floors = measure.Turns()
        self.guards = measure.Turns()
        self.start = measure.Turns()
        self.memory = {}
        self.commands = {}
        self.precisions = ["fp32"]
        attempt = ["mpirun", "-np", "1"] + self.trainer() + ["--device", "cpu", "--precision",
                                                             "bf16", "--max-steps", "1"]
        done = subprocess.run(attempt, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        reason = done.stderr.partition("error: --precision: ")[2].partition("\n")[0]
        if done.returncode == 0:
            self.precisions.append("bf16")
        elif done.returncode == 2 and reason:
            say(f"left out: {reason}")
        else:
            sys.exit(f"error: training in bf16 failed:\n{done.stderr[-2000:]}")
        self.torch = {}  # name in the tables -> interpreter
        for python in options.python:
            version = measure.torch_version(python)
            if version:
                self.torch[f"PyTorch {version.split('+')[0]}"] = python
            else:
                say(f"left out: {python} has no PyTorch with gloo (choose others with --python)")

    def trainer(self):
        # Use the fastest algorithm, not the ring with which the course trains.
        return [self.program("ddp_training"), "--algorithm", "auto"]

    def program(self, name):
        return str(self.options.bin / name)

    def steps(self, model, ranks):
        """The number of steps that takes about --seconds, or more if a median needs more."""
        crowd = max(1.0, ranks / measure.cores())
        guess = 3e-3 + crowd * 6 * parameters_of(model) * model.batch / 60e9
        return int(min(200, max(8, self.options.seconds / guess)))

    def job(self, model, ranks, steps, batches=4):
        return ["--json", "--device", "cpu", "--dataset", "synthetic", "--layers",
                ",".join(map(str, model.layers)), "--classes", model.layers[-1], "--batch-size",
                model.batch, "--samples", batches * ranks * model.batch, "--max-steps", steps]

    def last_row(self, what, ranks, command, limit=600):
        command = ["mpirun", "-np", ranks] + command
        self.commands.setdefault(what, command)
        return measure.rows_of(command, limit=limit)[-1]

    def compare(self, model, ranks, precision):
        job = self.job(model, ranks, self.steps(model, ranks)) + ["--precision", precision]
        keep = ("step_ms", "data_ms", "compute_ms", "exposed_comm_ms", "optimizer_ms",
                "samples_per_second")
        key = (name_of(model), ranks, precision)
        for name, flags in OURS.items():
            if name == "ours" or ranks > 1:
                row = self.last_row(name, ranks, self.trainer() + flags + job)
                self.turns.add(key + (name,), {field: row.get(field) for field in keep})
        for name, python in self.torch.items():
            peer = [python, HERE / "peers" / "pytorch_ddp.py"] + job
            for mode in self.modes(ranks):
                row = self.last_row(" ".join(["PyTorch"] + mode), ranks, peer + mode)
                self.turns.add(key + (" ".join([name] + mode),), {"step_ms": row["step_ms"]})
        layers = ",".join(map(str, model.layers))
        self.floors.add(key, self.last_row(
            "floor", ranks, [self.program("training_floor"), "--layers", layers, "--batch-size",
                             model.batch, "--iterations", self.options.passes,
                             "--precision", precision]))

    def modes(self, ranks):
        """PyTorch's modes. Compiling on more ranks than cores would take minutes."""
        return [[], ["--compile"]][:1 if self.options.eager or ranks > measure.cores() else 2]

    def theirs_ms(self, key, peer):
        """PyTorch's time in its faster mode."""
        times = [self.turns.median(key + (name,), "step_ms") for name in (peer, peer + " --compile")]
        return min((time for time in times if time), default=None)

    def floor_ms(self, key):
        return self.sum_of(key, ["products_ms", "adam_floor_ms"])

    def sum_of(self, key, fields):
        parts = [self.floors.median(key, field) for field in fields]
        return None if None in parts else sum(parts)

    # Only one step in a hundred pays for the guards, so compute the mean (not the median) over a
    # multiple of 100 steps. As in every run, the first five steps are not counted.
    def guard(self, model, ranks, off):
        hundreds = max(2, 2 * self.steps(model, ranks) // 100)
        job = self.job(model, ranks, 100 * hundreds + 5)
        for name, flags in (("on", []), ("off", off)):
            row = self.last_row("guards " + name, ranks,
                                self.trainer() + job + flags)
            mean_ms = 1e3 * ranks * model.batch / row["samples_per_second"]
            self.guards.add((name_of(model), ranks, name), {"mean_ms": mean_ms})

    def off_flags(self):
        known = measure.run(self.trainer() + ["--help-all"])
        wanted = {"--timeout": "0", "--check-replicas": "0"}
        return [word for flag, value in wanted.items() if flag in known for word in (flag, value)]

    def first_step(self, name, command):
        """Adds the seconds from the start of mpirun to the row of the first step."""
        begin = time.perf_counter()
        with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            seconds = None
            for line in process.stdout:
                if seconds is None and line.startswith('{"') and '"step":0' in line:
                    seconds = time.perf_counter() - begin
            if process.wait() != 0 or (seconds is None and name != "mpirun itself"):
                sys.exit(f"error: the command failed: {' '.join(map(str, command))}\n"
                         + process.stderr.read()[-2000:])
        self.start.add((name,), {"seconds": seconds or time.perf_counter() - begin})

    def start_round(self, ranks, with_peers):
        flags = ["--json", "--device", "cpu", "--dataset", "synthetic", "--max-steps", 2]
        mpirun = ["mpirun", "-np", ranks]
        self.commands.setdefault("start", mpirun + self.trainer() + flags)
        self.first_step("mpirun itself", mpirun + ["true"])
        self.first_step("ours", mpirun + self.trainer() + flags)
        for name, python in self.torch.items() if with_peers else ():
            self.first_step(name, mpirun + [python, HERE / "peers" / "pytorch_ddp.py"] + flags)

    def peak_mib(self, what, ranks, command):
        with tempfile.TemporaryDirectory() as folder:
            command = ["mpirun", "-np", ranks, sys.executable, HERE / "memory_samples.py",
                       folder] + command
            self.commands.setdefault(what, command)
            measure.run(command)
            return memory_samples.peak_per_rank_mib(folder)

    def weigh(self, model, ranks):
        job = self.job(model, ranks, 3, batches=1)  # a data set of one batch, to measure the model
        row = {"needed": needed_mib(model),
               "mpi": self.peak_mib("memory of MPI", ranks, [self.program("send_recv")]),
               "ours": self.peak_mib("memory", ranks, self.trainer() + job)}
        for name, python in self.torch.items():
            row[name] = self.peak_mib("memory of PyTorch", ranks,
                                      [python, HERE / "peers" / "pytorch_ddp.py"] + job)
        self.memory[name_of(model), ranks] = row

    def run(self):
        options = self.options
        for index in range(options.rounds):
            for model in options.models:
                for ranks in options.ranks:
                    say(f"step: round {index + 1} of {options.rounds}, {name_of(model)}, "
                        f"{ranks} rank{'s' if ranks > 1 else ''}")
                    for precision in self.precisions:
                        self.compare(model, ranks, precision)
        off = self.off_flags()
        guarded = options.models[:2]
        self.guard_off = " ".join(off)
        for index in range(2 * options.rounds + 1):
            say(f"guards: round {index + 1} of {2 * options.rounds + 1}")
            for model in guarded:
                self.guard(model, min(measure.cores(), 2), off)
        for index in range(options.rounds + 2):
            say(f"start: round {index + 1} of {options.rounds + 2}")
            # Python starts so much more slowly than our programs that two rounds show it.
            self.start_round(options.start_ranks, with_peers=index < 2)
        for model in options.models:
            say(f"memory: {name_of(model)}")
            self.weigh(model, min(measure.cores(), 2))

    def step_tables(self):
        lines = []
        peers = list(self.torch)
        for ranks, precision in itertools.product(self.options.ranks, self.precisions):
            rows = []
            for model in self.options.models:
                key = (name_of(model), ranks, precision)
                part = lambda field: self.turns.median(key + ("ours",), field)
                ours, floor = part("step_ms"), self.floor_ms(key)
                sharded = self.turns.median(key + ("sharded",), "step_ms")
                theirs = [self.theirs_ms(key, peer) for peer in peers]
                wanted = {1: 1, 2: WANTED[precision].get(key[0])}.get(ranks)
                rows.append([key[0], model.batch, f"{parameters_of(model):,}", number(ours),
                             number(sharded)]
                            + [number(value) for value in theirs]
                            + [ratio(value, time) for value in theirs for time in (ours, sharded)]
                            + [f">= {wanted}" if wanted and theirs else "-"]
                            + [number(floor), ratio(ours, floor),
                               number(self.floors.median(key, "gflops")),
                               number(self.floors.median(key, "gbs"))])
            lines += ["", f"## One step at {ranks} rank{'s' if ranks > 1 else ''} on "
                      f"{measure.cores()} cores, {precision}, milliseconds", "",
                      table(["layers", "batch", "parameters", *OURS] + peers
                            + [f"{peer} / {name}" for peer in peers for name in OURS]
                            + ["target", "floor", "ours / floor", "GFLOP/s", "GB/s"], rows)]
        return lines

    def phase_tables(self):
        lines = []
        alone = [ranks for ranks in self.options.ranks if ranks <= measure.cores()]
        for ranks, precision in itertools.product(alone, self.precisions):
            rows = []
            for model in self.options.models:
                key = (name_of(model), ranks, precision)
                row = [key[0]]
                for field, parts in PHASES.values():
                    ours = self.turns.median(key + ("ours",), field) or self.floors.median(key, field)
                    floor = self.sum_of(key, parts)
                    row.append(f"{number(ours)} / {number(floor)} = {ratio(ours, floor)}")
                rows.append(row)
            lines += ["", f"## Each phase beside its floor: {ranks} rank{'s' if ranks > 1 else ''}, "
                      f"{precision}, milliseconds", "", table(["layers", *PHASES], rows)]
        return lines + [
            "", "A cell reads: ours / the floor = the ratio. Data, compute, exposed communication "
            "and optimizer are the trainer's own times, and add up to its step; the others are parts of "
            "them, measured apart. The floors: for data, a gather of the rows, in caches "
            "that Adam has filled; for the products, the matrix "
            "library alone; for biases, ReLUs and column sums (outputs), the finite check and Adam, the "
            "bytes that they touch at memcpy's rate, or for Adam the same square roots and divisions "
            "alone if that takes longer; for the loss, its exponentials and logarithms alone; for exposed "
            "communication, one MPI_Allreduce of all gradients after the backward pass. Less than 1 means "
            "that the overlap or the caches win. A phase of a few microseconds is "
            "mostly the clock."]

    def scaling_table(self):
        base = min(self.options.ranks)
        more = [ranks for ranks in self.options.ranks if base < ranks <= measure.cores()]
        rows = []
        for model in self.options.models:
            for ranks in more:
                name = name_of(model)
                times = [[self.turns.median((name, n, "fp32", "ours"), "step_ms")
                          for n in (base, ranks)]]
                times += [[self.theirs_ms((name, n, "fp32"), peer) for n in (base, ranks)]
                          for peer in self.torch]
                floors = [self.floor_ms((name, n, "fp32")) for n in (base, ranks)]
                rows.append([name, f"{base} -> {ranks}"] + [ratio(*pair) for pair in times]
                            + [ratio(*floors)])
        if not rows:
            return []
        return ["", "## Weak scaling: ratio of the step's times on few and on more ranks", "",
                table(["layers", "ranks", "ours"] + list(self.torch) + ["the floor itself"], rows),
                "", "The target is >= 0.9 if compute dominates. The floor's own ratio is the best "
                "that any program can reach, because the cores share memory and clock."]

    def guard_table(self):
        rows = []
        for (name, ranks, state), on in self.guards.rows.items():
            if state != "on":
                continue
            pairs = list(zip(on, self.guards.rows[name, ranks, "off"]))
            shares = sorted(100 * (a["mean_ms"] / b["mean_ms"] - 1) for a, b in pairs)
            means = [self.guards.median((name, ranks, state), "mean_ms") for state in ("on", "off")]
            rows.append([name, ranks] + [number(mean) for mean in means]
                        + [f"{statistics.median(shares):+.1f} %",
                           f"{shares[0]:+.1f} to {shares[-1]:+.1f} %"])
        return ["", "## What the guards cost, mean milliseconds per step", "",
                table(["layers", "ranks", "on", "off", "difference", "range of all rounds"], rows),
                "", f"Off: `{self.guard_off}`. The target is <= 1 %. If the rounds differ by more than "
                "that, this machine cannot measure so small a cost."]

    def start_table(self):
        rows = [[name, f"{self.start.median((name,), 'seconds'):.2f}"]
                for (name,) in self.start.rows]
        return ["", f"## Start: `mpirun -np {self.options.start_ranks}` to the first step, seconds",
                "", table(["who", "seconds"], rows), "",
                "Ours trains the default model; the target is < 0.5. \"mpirun itself\" runs the command "
                "`true`."]

    def memory_table(self):
        rows = []
        for (name, ranks), row in self.memory.items():
            rows.append([name, ranks] + [f"{row[part]:.1f}" for part in ("needed", "mpi", "ours")]
                        + [ratio(row["ours"] - row["mpi"], row["needed"])]
                        + [f"{row[peer]:.0f}" for peer in self.torch])
        return ["", "## Memory per rank, MiB at the peak", "",
                table(["layers", "ranks", "needed", "MPI", "ours", "(ours - MPI) / needed"]
                      + list(self.torch), rows), "",
                "\"Needed\" counts the parameters, gradients, Adam's state, the layers' outputs and "
                "their gradients, and the batch. \"MPI\" is the memory of `send_recv`. The target "
                "for the ratio is at most 1.1. The program and the code that the matrix library "
                "generates take more memory than a small model. Pages that ranks share are divided "
                "among them."]

    def write(self, load):
        about = measure.facts(load, self.commands.values(),
                              PyTorch=", ".join(self.torch) or "not installed")
        lead = ["Generated by `./learn bench training`; do not edit. Adam, one thread per rank; "
                f"medians of {self.options.rounds} rounds, with the runs of all candidates interleaved. "
                "Our step includes everything from the start of a step to the start of the next: the "
                "batch, the mean loss over the ranks, and a line of JSON. \"Sharded\" is ours with "
                "`--shard optimizer`. PyTorch's step is only forward, backward and optimizer. Its "
                "settings are a fused optimizer, gradients as views of buckets, and a static graph; in "
                "bf16, autocast. "
                + ("It was not compiled." if self.options.eager else
                   "On up to as many ranks as cores it also ran compiled (torch.compile), and "
                   "the tables show the faster of the two.")]
        lines = self.step_tables()
        lines += ["", "GFLOP/s is the rate of the step's matrix products alone, in the step's order. "
                  "GB/s is the rate of reading and writing Adam's 28 bytes per parameter. The "
                  "floor is the sum of the two times. Only products that a step needs are counted: the "
                  "gradient of the data, which the formula 6 P B includes, is left out."]
        lines += self.phase_tables() + self.scaling_table() + self.guard_table() + self.start_table()
        lines += self.memory_table()
        measure.write(self.options, "training", "A training step, measured", lead,
                      lines[1:], about, {
                          "steps": self.turns.json(("layers", "ranks", "precision", "who")),
                          "floors": self.floors.json(("layers", "ranks", "precision")),
                          "guards": self.guards.json(("layers", "ranks", "guards")),
                          "start": self.start.json(("who",)),
                          "memory": [{"layers": name, "ranks": ranks, **row}
                                     for (name, ranks), row in self.memory.items()]})


def main():
    cores = measure.cores()
    parser = argparse.ArgumentParser(prog="./learn bench training", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--ranks", type=int, nargs="+", default=sorted({1, cores, 2 * cores}))
    parser.add_argument("--models", type=model_of, nargs="+", metavar="WIDTHS:BATCH",
                        default=[model_of(text) for text in MODELS],
                        help="widths and batch per rank; default " + " ".join(MODELS))
    measure.add_flags(parser, rounds=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="approximate length of a run")
    parser.add_argument("--eager", action="store_true", help="leave out torch.compile")
    parser.add_argument("--passes", type=int, default=5, help="passes of the floor per round")
    parser.add_argument("--start-ranks", type=int, default=4, help="ranks for measuring the start")
    options = parser.parse_args()
    if min(options.ranks + [options.rounds, options.passes, options.start_ranks]) < 1:
        parser.error("needs at least 1 rank, 1 round and 1 pass")
    if not options.seconds > 0:
        parser.error("--seconds: must be more than 0")
    if options.check_flags:
        return

    load = measure.Load()
    bench = Bench(options)
    bench.run()
    bench.write(load)


if __name__ == "__main__":
    main()
