"""The bytes that a training step sends, counted, next to the least that is possible."""

from __future__ import annotations

import pytest
from training import train


# The only bucket has 111 numbers, or 444 bytes. In a ring of 3 ranks, each sends 2 (3 - 1) chunks
# of 37. In the naive algorithm, rank 0 sends all of it to ranks 1 and 2.
@pytest.mark.parametrize(
    "flags, sent",
    [
        ("--algorithm ring", 592),
        ("--algorithm ring --overlap", 592),
        ("--algorithm naive", 888),
        ("--backend mpi", None),
    ],
)
def test_the_traffic_of_a_step_is_counted_and_shown_next_to_the_minimum(flags: str, sent: int | None) -> None:
    job = "--device cpu --dataset synthetic --samples 96 --layers 8,9,3 --classes 3 --batch-size 8"
    run = train(3, f"{job} --max-steps 2 {flags}")
    assert run.final["bytes_sent_per_step"] == sent
    assert run.final["least_bytes_per_step"] == 592
