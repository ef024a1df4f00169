"""Tensor parallelism trains what one process trains, and costs what its page says."""

import pytest
from training import BATCH, LAYERS, WEIGHTS, replicas_cost, ring, trained


@pytest.mark.parametrize("ranks, replicas", [(1, 1), (2, 1), (4, 1), (2, 2), (4, 2)])
def test_tensor_parallelism(ranks: int, replicas: int) -> None:
    n = ranks // replicas
    every, last = trained(ranks, f"tensor_parallel --data-parallel {replicas}")
    biases = [o if layer % 2 else o // n for layer, o in enumerate(LAYERS[1:])]
    part = [weight // n for weight in WEIGHTS] + biases
    for row in every:
        assert row["parameters_bytes"] == row["optimizer_bytes"] == 4 * sum(part)
    # Forward adds up the output of each pair of layers, backward the input of all but the first.
    rows = BATCH // replicas
    messages, sent = replicas_cost(replicas, part)
    assert last["messages_per_rank"] == 3 * 2 * (n - 1) + messages
    assert last["bytes_per_rank"] == sum(ring(n, rows * width) for width in (48, 10, 48)) + sent


def test_layers_need_not_be_divisible() -> None:
    every, _ = trained(3, "tensor_parallel")
    assert len({row["parameters_bytes"] for row in every}) > 1
