#!/usr/bin/env python3
"""./learn bench buckets, and ./learn bench batch: what one flag of ddp_training does to a step.

  buckets   --bucket-cap-mb, from a message per parameter to one for all: how long the messages
            take, and how much of that is exposed, because nothing is computed meanwhile
  batch     --batch-size: samples per second, and the share of a step that computes

All values run in turns, several rounds; medians count. What follows -- goes to ddp_training
(-- --overlap). Writes bench/results/buckets.md or batch.md. Python's standard library
only.
"""
import argparse
import pathlib
import sys

import measure
from measure import number, say, table

LAYERS = "784,512,512,512,512,512,512,512,10"


def bucket_sizes(layers, cap_mib):
    """PyTorch's rule (05_ddp_training/data_parallel/bucket_plan.hpp): parameters from the last to the first,
    a bucket is closed when it has reached the cap. Bytes of each bucket."""
    widths = [int(width) for width in layers.split(",")]
    sizes = []
    for i, o in zip(widths, widths[1:]):
        sizes += [4 * i * o, 4 * o]
    buckets, size = [], 0
    for index, part in enumerate(reversed(sizes)):
        size += part
        if size >= cap_mib * 2**20 or index == len(sizes) - 1:
            buckets.append(size)
            size = 0
    return buckets


class Sweep:
    def __init__(self, options, extra):
        self.options = options
        self.extra = extra
        self.turns = measure.Turns()
        self.command = None

    def run(self, flags_of):
        options = self.options
        for index in range(options.rounds):
            for value in options.values:
                say(f"round {index + 1} of {options.rounds}: {value:g}")
                flags, batch = flags_of(value)
                crowd = max(1.0, options.ranks / measure.cores())
                widths = [int(width) for width in options.layers.split(",")]
                numbers = sum(i * o for i, o in zip(widths, widths[1:]))
                guess = 5e-4 + crowd * 6 * numbers * batch / 60e9
                steps = int(min(500, max(12, options.seconds / guess)))
                command = ["mpirun", "-np", options.ranks, options.bin / "ddp_training", "--json",
                           "--algorithm", "auto", "--device", "cpu", "--dataset", "synthetic", "--layers", options.layers,
                           "--classes", widths[-1], "--samples", 4 * options.ranks * batch,
                           "--max-steps", steps] + flags + self.extra
                self.command = self.command or command
                self.turns.add((value,), measure.rows_of(command)[-1])
        for rows in self.turns.rows.values():
            for row in rows:
                row.pop("parameters", None)

    def part(self, value, field):
        return self.turns.median((value,), field) or 0.0

    def split(self, value):
        """A step's bar: C computes, x waits for messages, o is the optimizer, d the data."""
        return [("C", self.part(value, "compute_ms")), ("x", self.part(value, "exposed_comm_ms")),
                ("o", self.part(value, "optimizer_ms")), ("d", self.part(value, "data_ms"))]

    def write(self, name, title, lines, load):
        lead = [f"Written by `./learn bench {name}`; not by hand. {self.options.ranks} ranks on "
                f"{measure.cores()} cores, layers {self.options.layers.replace(',', '-')}, Adam; "
                f"medians of {self.options.rounds} rounds."]
        about = measure.facts(load, [self.command])
        measure.write(self.options, name, title, lead, lines, about,
                      {"rows": self.turns.json((name,))})


def buckets(sweep, load):
    layers = sweep.options.layers
    sweep.run(lambda cap: (["--bucket-cap-mb", cap, "--first-bucket-mb", cap, "--batch-size",
                            sweep.options.batch_size], sweep.options.batch_size))
    rows, bars = [], []
    for cap in sweep.options.values:
        plan = bucket_sizes(layers, cap)
        part = lambda field: sweep.part(cap, field)
        rows.append([f"{cap:g}", len(plan), number(max(plan) / 2**20)]
                    + [number(part(field)) for field in ("step_ms", "compute_ms", "comm_ms",
                                                         "exposed_comm_ms")]
                    + [f"{100 * part('hidden'):.0f} %"])
        bars.append((f"{cap:g} MiB", sweep.split(cap), f"{number(part('step_ms'))} ms, "
                     f"{len(plan)} message{'s' if len(plan) > 1 else ''}"))
    best = min(sweep.options.values, key=lambda cap: sweep.part(cap, "step_ms"))
    sweep.write("buckets", "The size of a bucket", [
        table(["cap, MiB", "buckets", "largest, MiB", "step, ms", "compute", "communication",
               "exposed", "hidden"], rows), "",
        "One step (C computes, x waits for messages, o optimizer, d data):", "",
        measure.picture(bars), "",
        f"Shortest step at {best:g} MiB. Small buckets pay a start for each message; with one large "
        "bucket the first message waits for the last gradient. Where every core computes, nothing "
        "is hidden, whatever the size."], load)


def batch(sweep, load):
    sweep.run(lambda size: (["--batch-size", int(size)], int(size)))
    rows, bars = [], []
    for size in sweep.options.values:
        part = lambda field: sweep.part(size, field)
        share = part("compute_ms") / part("step_ms") if part("step_ms") else 0.0
        rows.append([f"{size:g}", f"{size * sweep.options.ranks:g}",
                     f"{part('samples_per_second'):.0f}"]
                    + [number(part(field)) for field in ("step_ms", "compute_ms",
                                                         "exposed_comm_ms", "optimizer_ms")]
                    + [f"{100 * share:.0f} %"])
        bars.append((f"{size:g}", [("#", part("samples_per_second"))],
                     f"{part('samples_per_second'):.0f} samples/s, {100 * share:.0f} % computing"))
    sweep.write("batch", "The size of a batch", [
        table(["batch per rank", "global batch", "samples/s", "step, ms", "compute", "exposed",
               "optimizer", "share of compute"], rows), "",
        "Samples per second:", "", measure.picture(bars), "",
        "Messages and optimizer cost the same for any batch, so a larger one divides them among "
        "more samples, until compute is nearly all there is."], load)


KINDS = {
    "buckets": (buckets, [0.0, 0.25, 1.0, 2.0, 4.0, 25.0], 0.0, "caps in MiB; 0: each parameter "
                "by itself"),
    "batch": (batch, [4, 16, 64, 256, 1024], 1.0, "batch sizes per rank"),
}


def main():
    words = sys.argv[1:]
    words, extra = (words[:words.index("--")], words[words.index("--") + 1:]) if "--" in words \
        else (words, [])
    kind = words[0] if words and words[0] in KINDS else None
    function, values, smallest, meaning = KINDS[kind or "buckets"]
    parser = argparse.ArgumentParser(prog=f"./learn bench {kind or 'buckets|batch'}",
                                     description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--ranks", type=int, default=max(2, measure.cores()))
    parser.add_argument("--values", type=float, nargs="+", default=values, help=meaning)
    parser.add_argument("--layers", default=LAYERS, help="widths; default %(default)s")
    if kind == "buckets":
        parser.add_argument("--batch-size", type=int, default=64, help="samples per rank")
    measure.add_flags(parser, rounds=3, python=False)
    parser.add_argument("--seconds", type=float, default=1.0, help="about so long per start")
    options = parser.parse_args(words)
    if options.ranks < 1 or options.rounds < 1 or not options.seconds > 0:
        parser.error("at least 1 rank, 1 round, and more than 0 seconds")
    if not min(options.values) >= smallest:
        parser.error(f"--values: at least {smallest:g}")
    if kind == "batch" and any(value != int(value) for value in options.values):
        parser.error("--values: whole batches")
    if options.check_flags:
        return
    load = measure.Load()
    function(Sweep(options, extra), load)


if __name__ == "__main__":
    main()
