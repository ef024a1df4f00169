#!/usr/bin/env python3
"""forecast.py RANKS: how long all-reduces would take on a machine that you do not have; and with a model's
parameters, whether they would hide behind backward (training_forecast.py).

A message of n bytes takes alpha + n beta, and adding n bytes takes n gamma. The formulas are those of lesson 3's
cost model (choice/cost_model.cpp), with two kinds of links: within a host, and the network cards between hosts. The
ranks of a host that send at the same time share its cards, and one message uses one card. Lesson 1's Cost has the
figures' sources; the latencies are within what NCCL assumes.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable

from training_forecast import PRECISIONS, Training, answer

WITHIN = 2.8e-6, 1e-9 / 370  # alpha in seconds, beta in seconds per byte
BETWEEN = 5e-6  # alpha
REACHED = 0.94  # of a card's rate (test_forecast.py has published figures)
GAMMA = 0.001e-9  # seconds per byte
SIZES = [1024 * 4**k for k in range(11)]  # bytes


class Machine:
    """`card` is the bytes per second of a network card, `cards` their number per host (None: one per rank)."""

    def __init__(self, ranks: int, per_host: int, card: float = 50e9 * REACHED, cards: float | None = None) -> None:
        self.ranks, self.per_host = ranks, min(per_host, ranks)
        self.card = card
        self.of_host = card * (self.per_host if cards is None else cards)
        self.power = 1 << (ranks.bit_length() - 1)  # the largest power of two up to `ranks`
        self.stride = 1 if ranks == self.power else 2  # those next to surplus ranks are 2 apart

    def message(self, n: float, distance: int, senders: int | None = None) -> float:
        """All pairs of ranks at this distance exchange n bytes: the time of the slowest pair. `senders` of each host
        (None: all its ranks) send to other hosts."""
        if self.per_host == self.ranks or self.per_host % (2 * distance) == 0:
            return WITHIN[0] + n * WITHIN[1]
        return BETWEEN + n / min(self.card, self.of_host / (senders or self.per_host))

    def busbw(self) -> float:
        """Of a large all-reduce by NCCL, in bytes per second: it runs rings over all cards, so they add up."""
        within = 1 / WITHIN[1]
        return within if self.per_host == self.ranks else min(within, self.of_host)


Algorithm = Callable[[Machine, float], float]  # the seconds for n bytes


def distances(ranks: int, stride: int = 1) -> list[int]:
    """Between partners: 1, 2, 4, ... new ranks, each `stride` ranks apart."""
    return [stride << k for k in range((ranks - 1).bit_length())]


def ring(m: Machine, n: float) -> float:
    """2 (N - 1) steps of one chunk, each as slow as the slowest link."""
    chunk = n / m.ranks
    slowest = max(m.message(chunk, distance, senders=1) for distance in (1, m.per_host))
    return (m.ranks - 1) * (2 * slowest + chunk * GAMMA)


def rings(m: Machine, n: float) -> float:
    """A ring per card, as NCCL has them, which adds during the transfer: the same steps, at the bus bandwidth."""
    return ring(m, 0) + 2 * (m.ranks - 1) / m.ranks * n / m.busbw()


def tree(m: Machine, n: float) -> float:  # a sum to rank 0 and a broadcast
    return sum(2 * m.message(n, distance, senders=1) + n * GAMMA for distance in distances(m.ranks))


def fold(m: Machine, n: float) -> float:  # surplus ranks send their numbers to a neighbour and get the result
    return 2 * m.message(n, 1, senders=1) + n * GAMMA if m.stride == 2 else 0


def recursive_doubling(m: Machine, n: float) -> float:
    rounds = distances(m.power, m.stride)
    return fold(m, n) + sum(m.message(n, distance) + n * GAMMA for distance in rounds)


def rabenseifner(m: Machine, n: float) -> float:  # n/2, n/4, ... are exchanged and added; then the sums are exchanged
    parts = [(n * d / m.power / m.stride, d) for d in distances(m.power, m.stride)]
    return fold(m, n) + sum(2 * m.message(part, d) + part * GAMMA for part, d in parts)


def hierarchical(m: Machine, n: float) -> float:
    """The ring's two halves inside each host; in between, an all-reduce of each part. These share the cards."""
    hosts = Machine(m.ranks // m.per_host, 1, min(m.card, m.of_host / m.per_host))
    across = rabenseifner if hosts.stride == 1 else ring
    return ring(Machine(m.per_host, m.per_host), n) + across(hosts, n / m.per_host)


def candidates(m: Machine) -> list[Algorithm]:
    two_levels = 1 < m.per_host < m.ranks and m.ranks % m.per_host == 0
    everywhere: list[Algorithm] = [ring, tree, recursive_doubling]
    return everywhere + [hierarchical, rings] * two_levels


def fastest(m: Machine, n: float) -> Algorithm:
    return min(candidates(m), key=lambda algorithm: algorithm(m, n))


def crossover(m: Machine, low: int, high: int) -> int:
    """The smallest size, to 0.1 %, at which the algorithm that is fastest at `low` no longer is."""
    before = fastest(m, low)
    while high - low > max(1, low // 1000):
        middle = low + (high - low) // 2
        low, high = (middle, high) if fastest(m, middle) is before else (low, middle)
    return high


def row(m: Machine, n: int) -> list[str]:
    times = [(algorithm(m, n), algorithm) for algorithm in candidates(m)]
    best = fastest(m, n)
    seconds = best(m, n)
    busbw = n / seconds / 1e9 * 2 * (m.ranks - 1) / m.ranks
    latency = best(m, 0) / seconds  # zero bytes take latency alone
    power = (n.bit_length() - 1) // 10
    size = f"{n >> 10 * power} {('B', 'KiB', 'MiB', 'GiB')[power]}"
    return (
        [size]
        + [f"{1e6 * t:.{1 if t < 1e-2 else 0}f}{'*' if a is best else ' '}" for t, a in times]
        + [f"{busbw:.2f}", f"{100 * latency:.0f}%"]
    )


def positive(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e30:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ranks", type=int, metavar="RANKS", help="2 to 65536")
    parser.add_argument("--ranks-per-host", type=int, default=8, metavar="N", help="default: 8")
    parser.add_argument("--cards", type=positive, metavar="K", help="network cards per host; default: one per rank")
    parser.add_argument("--gbit", type=positive, metavar="G", default=400, help="a card's rate in Gbit/s (400)")
    model = parser.add_argument_group("whether the all-reduce of a training step hides")
    model.add_argument("--parameters", type=positive, metavar="P", help="of the model, for example 1.3e9")
    model.add_argument("--tokens", type=positive, metavar="T", help="per GPU, in the backward that communicates")
    model.add_argument("--tflops", type=positive, metavar="F", help="that a GPU reaches in training (400)", default=400)
    model.add_argument(
        "--busbw",
        type=positive,
        metavar="GB/S",
        help="of a large all-reduce (all_reduce_perf); default: of the links",
    )
    model.add_argument("--memory", type=positive, metavar="GB", help="of a GPU")
    model.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="of parameters and gradients (float32, also with autocast); bf16 has float32 copies beside them",
    )
    flags = parser.parse_args()
    if not 2 <= flags.ranks <= 65536 or flags.ranks_per_host < 1:
        parser.error("needs 2 to 65536 ranks, and at least 1 per host")
    if (flags.parameters is None) != (flags.tokens is None):
        parser.error("--parameters and --tokens belong together")
    m = Machine(flags.ranks, flags.ranks_per_host, 1e9 * flags.gbit / 8 * REACHED, flags.cards)
    if flags.parameters is not None:
        busbw = 1e9 * flags.busbw if flags.busbw else m.busbw()
        memory = 1e9 * flags.memory if flags.memory else None
        precision = PRECISIONS[flags.precision]
        run = Training(flags.ranks, flags.parameters, flags.tokens, 1e12 * flags.tflops, busbw, memory, precision)
        print(*answer(run), sep="\n")
        return
    within = f"{1e6 * WITHIN[0]:g} us, {1e-9 / WITHIN[1]:.4g} GB/s"
    between = f"{1e6 * BETWEEN:g} us, {1e-9 * m.card:.4g} GB/s per card and {1e-9 * m.of_host:.4g} per host"
    print(f"forecast: {m.ranks} ranks, {m.per_host} per host; within a host {within}; between hosts {between}")
    names = [algorithm.__name__.replace("_", "-") for algorithm in candidates(m)]
    rows = [["us", *names, "best busbw GB/s", "latency share"]] + [row(m, n) for n in SIZES]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for cells in rows:
        print("".join("  " + cell.rjust(width) for cell, width in zip(cells, widths)))
    print("(* is the fastest; ring: one, over one card of each host; tree: a sum to rank 0 and a broadcast)")
    if "rings" in names:
        print("(rings: one for each card, as NCCL has them)")
    for low, high in zip(SIZES, SIZES[1:]):
        before, after = fastest(m, low).__name__, fastest(m, high).__name__
        if before != after:
            at = crossover(m, low, high)
            print(f"from {at} bytes on, {after} is faster than {before}".replace("_", "-"))


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except OSError as problem:
        sys.stdout = io.StringIO()  # Python would try again
        sys.exit(f"error: standard output cannot be written: {problem.strerror}")
