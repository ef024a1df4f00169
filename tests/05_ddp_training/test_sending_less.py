"""sending_less verifies every exchange; here, what it sends, and what its ways have in common. Its
page's commands (test_readmes) show what error feedback and rare exchanges change.
"""

from typing import Any

import pytest
from programs import refused, runs
from training import ring

LAYERS = [*zip([784, 512, 512, 512], [512, 512, 512, 10])]  # inputs and outputs
WHOLE = [count for i, o in LAYERS for count in (o * i, o)]
OF_RANK_3 = [count for i, o in LAYERS for count in (3 * o, 3 * i, o)]


def train(ranks: int, flags: str) -> tuple[list[float], dict[str, Any]]:
    """The losses and the last row."""
    *steps, final = runs(ranks, f"sending_less --json {flags}").rows
    return [row["loss"] for row in steps], final


WAYS = [
    ("--way ddp", WHOLE, 1),
    ("--way bf16", WHOLE, 2),
    ("--way powersgd --matrix-rank 3", OF_RANK_3, 1),
    ("--way local-sgd --every 4", WHOLE, 4),
    ("--way local-sgd --every 2 --outer-lr 0.7 --outer-momentum 0.9", WHOLE, 2),
]


@pytest.mark.parametrize(
    "ranks, flags, counts, parts", [*[(3, *way) for way in WAYS], (1, *WAYS[0]), (2, *WAYS[2]), (4, *WAYS[1])]
)
def test_a_rank_sends_what_the_page_says(ranks: int, flags: str, counts: list[int], parts: int) -> None:
    losses, final = train(ranks, f"{flags} --steps 8 --pretend-link 1")
    assert final["bytes_sent_per_step"] == sum(ring(ranks, count) for count in counts) / parts
    assert losses[0] > losses[-1] and final["step_ms"] >= final["bytes_sent_per_step"] * 8e-6


@pytest.mark.parametrize("steps, every, exchanges", [(10, 4, 3), (8, 4, 2), (3, 5, 1)])
def test_the_last_steps_are_exchanged_even_if_they_are_few(steps: int, every: int, exchanges: int) -> None:
    _, final = train(2, f"--way local-sgd --every {every} --steps {steps}")
    assert final["bytes_sent_per_step"] * steps == exchanges * sum(ring(2, count) for count in WHOLE)
    assert final["replicas_identical"] is True


def test_local_sgd_with_an_exchange_per_step_is_ddp_if_the_optimizer_is_sgd() -> None:
    sgd = "--steps 20 --optimizer sgd"
    ddp, _ = train(3, sgd)
    assert train(3, f"{sgd} --way local-sgd --every 1")[0] == pytest.approx(ddp, abs=1e-6)
    assert train(3, f"{sgd} --way local-sgd --every 2")[0] != pytest.approx(ddp, abs=1e-4)


def test_diloco_with_a_rate_of_1_and_no_momentum_is_local_sgd() -> None:
    sgd = "--steps 20 --optimizer sgd --way local-sgd --every 5"
    local, _ = train(3, sgd)
    assert train(3, f"{sgd} --outer-lr 1 --outer-momentum 0")[0] == pytest.approx(local, abs=1e-6)
    assert train(3, f"{sgd} --outer-lr 1 --outer-momentum 0.9")[0] != pytest.approx(local, abs=1e-4)


@pytest.mark.parametrize(
    "flags, error",
    [
        ("--way ddp --every 4", "--every: is for --way local-sgd, not ddp"),
        ("--way bf16 --matrix-rank 4", "--matrix-rank: is for --way powersgd, not bf16"),
        ("--way local-sgd --no-feedback", "--feedback: is for --way powersgd, not local-sgd"),
        ("--way gossip", "--way: "),
        ("--steps 0", "--steps: "),
        ("--pretend-link -1", "--pretend-link: "),
    ],
)
def test_flags_that_do_not_fit_are_refused(flags: str, error: str) -> None:
    refused(f"sending_less {flags}", error)
