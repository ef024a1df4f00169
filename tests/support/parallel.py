"""Runs of tensor_parallel and pipeline_parallel."""

from typing import Any

from programs import runs
from ring import ring

LAYERS, BATCH = [784, 64, 48, 32, 10], 32

FLAGS = f"--json --layers {','.join(map(str, LAYERS))} --batch-size {BATCH}"
WEIGHTS = [i * o for i, o in zip(LAYERS, LAYERS[1:])]


def trained(ranks: int, program: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of the ranks and the last row, of a run that has compared itself with one process."""
    rows = runs(ranks, f"{program} {FLAGS}").rows
    assert sum("step" in row for row in rows) == 100
    assert rows[-1]["parameter_difference"] < 1e-3 and rows[-1]["loss_difference"] < 1e-5
    return rows[-1 - ranks : -1], rows[-1]


def replicas_cost(replicas: int, parameters: list[int]) -> tuple[int, int]:
    """Messages and bytes for the average of two gradients per layer, with so many numbers."""
    return 2 * (replicas - 1) * len(parameters), sum(ring(replicas, count) for count in parameters)
