"""Whether the all-reduce of a training step hides behind backward, and what helps if it does not.

With P parameters, T tokens (or samples, times what one costs) per rank in the backward that communicates,
F operations per second and a bus bandwidth of B bytes per second:

    forward     2 P T / F     a multiplication and an addition per parameter and token
    backward    4 P T / F     the same for the gradients of the parameters, and of what is between layers
    all-reduce  2 (N - 1)/N x 4 P / B, nearly 8 P / B (half of that with gradients in bf16)

P cancels: the all-reduce hides if T exceeds 2 F / B. Left out: latency, the last bucket (never hidden), the
optimizer, attention over long contexts, and that communication slows the computation beside it.
"""

from __future__ import annotations

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Precision:
    """Bytes per parameter. Adam's moments are float32; with bf16, so is a copy of the parameters."""

    value: int
    gradient: int
    states: int

    @property
    def all(self) -> int:
        return self.value + self.gradient + self.states


_RULE = {4: "2 F / busbw", 2: "F / busbw"}  # by the bytes of a gradient
PRECISIONS = {"float32": Precision(4, 4, 8), "bf16": Precision(2, 2, 12)}


@dataclasses.dataclass(frozen=True)
class Training:
    """All in plain units: operations per second, bytes per second, bytes."""

    ranks: int
    parameters: float
    tokens: float
    flops: float
    busbw: float
    memory: float | None = None
    precision: Precision = PRECISIONS["float32"]

    @property
    def gradient_bytes(self) -> float:
        return self.precision.gradient * self.parameters

    @property
    def forward(self) -> float:
        return 2 * self.parameters * self.tokens / self.flops

    @property
    def backward(self) -> float:
        return 2 * self.forward

    def all_reduce(self, share: float = 1) -> float:
        """In seconds, if only this share of the bytes is sent."""
        return 2 * (self.ranks - 1) / self.ranks * self.gradient_bytes * share / self.busbw

    def exposed(self, share: float = 1) -> float:
        return max(0.0, self.all_reduce(share) - self.backward)

    def step(self, batches: int = 1, share: float = 1) -> float:
        """With the gradients of so many batches added up before one all-reduce: only the last backward hides it."""
        return batches * (self.forward + self.backward) + self.exposed(share)

    def exposed_share(self, batches: int = 1, share: float = 1) -> float:
        return self.exposed(share) / self.step(batches, share)

    def batches_for(self, exposed_share: float) -> int:
        """The fewest that leave at most this share of a step exposed."""
        each = self.forward + self.backward
        return max(1, math.ceil(self.exposed() * (1 - exposed_share) / exposed_share / each - 1e-9))

    @property
    def tokens_to_hide(self) -> float:
        return self.tokens * self.all_reduce() / self.backward

    @property
    def busbw_to_hide(self) -> float:
        return self.busbw * self.all_reduce() / self.backward

    def state_bytes(self, divided: str) -> float:
        """Of a rank, without activations. ZeRO-1 divides the optimizer's states, ZeRO-2 the gradients, too, and
        ZeRO-3 (FSDP) everything."""
        p = self.precision
        whole = {"nothing": p.all, "states": p.value + p.gradient, "gradients": p.value, "everything": 0}[divided]
        return self.parameters * (whole + (p.all - whole) / self.ranks)


def rounded(value: float, unit: str) -> str:
    """Three digits: "3.48 s", "20.8 GB"."""
    for scale, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "u")):
        if value >= scale and not (unit == "s" and scale > 1):
            return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def _large(number: float) -> str:
    return f"{number / 1e9:.3g} billion" if number >= 1e9 else f"{number / 1e6:.3g} million"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def answer(training: Training) -> list[str]:
    t = training
    lines = [
        f"{_large(t.parameters)} parameters, {t.tokens:,.0f} tokens per GPU, {rounded(t.flops, 'FLOP/s')}, "
        f"{t.ranks} GPUs, busbw {rounded(t.busbw, 'B/s')}",
        f"forward {rounded(t.forward, 's')}, backward {rounded(t.backward, 's')}, "
        f"all-reduce of {rounded(t.gradient_bytes, 'B')} {rounded(t.all_reduce(), 's')}",
    ]
    if t.exposed() == 0:
        lines.append(
            f"hidden: from {t.tokens_to_hide:,.0f} tokens per GPU on ({_RULE[t.precision.gradient]}), "
            "all but the last bucket is"
        )
    else:
        lines += [
            f"exposed: {rounded(t.exposed(), 's')}, {_percent(t.exposed_share())} of a step of "
            f"{rounded(t.step(), 's')}; no bucket size hides it",
            f"it would hide from {t.tokens_to_hide:,.0f} tokens per GPU on, or from {rounded(t.busbw_to_hide, 'B/s')}",
        ]
        lines += [
            f"accumulating {batches} batches: {_percent(t.exposed_share(batches))} of a step exposed"
            for batches in sorted({4, t.batches_for(0.1)})
        ]
        lines += [
            f"sending {what}: {_percent(t.exposed_share(share=size / t.precision.gradient))} of a step exposed"
            for what, size in (("bf16", 2), ("8 bits", 1))
            if size < t.precision.gradient
        ]
    lines.append("left out: latency, the optimizer, attention, and that communication slows computation")
    if t.memory is not None:
        lines += _memory(t, t.memory)
    return lines


def _memory(t: Training, memory: float) -> list[str]:
    needs = {divided: t.state_bytes(divided) for divided in ("nothing", "states", "gradients", "everything")}
    room = rounded(memory, "B")
    fits = needs["nothing"] < memory
    rest = f"of {room}; if the rest is enough, nothing need be divided" if fits else f"more than {room}"
    names = {"states": "ZeRO-1", "gradients": "ZeRO-2", "everything": "ZeRO-3, FSDP"}
    lines = [
        f"memory: 16 P is {rounded(needs['nothing'], 'B')}{' ' if fits else ', '}{rest}",
        "  left out: activations (logits are large), DDP's and NCCL's buffers, the allocator's losses",
    ]
    lines += [
        f"  {names[divided]}: {rounded(needs[divided], 'B')}"
        + (", and half as many bytes again are sent" if divided == "everything" else "")
        + ("" if needs[divided] < memory else ": does not fit")
        for divided in names
    ]
    return lines
