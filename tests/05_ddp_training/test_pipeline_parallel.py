"""Pipeline parallelism trains what one process trains, and costs what its page says."""

import pytest
from programs import runs
from training import BATCH, FLAGS, LAYERS, WEIGHTS, replicas_cost, trained


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("ranks, replicas", [(1, 1), (2, 1), (4, 1), (2, 2), (4, 2)])
def test_pipeline_parallelism(ranks: int, replicas: int, schedule: str) -> None:
    stages, micro_batches = ranks // replicas, 8
    every, last = trained(ranks, f"pipeline_parallel --schedule {schedule} --data-parallel {replicas}")
    costs = []
    for rank, row in enumerate(every):
        stage = rank % stages
        first, end = 4 * stage // stages, 4 * (stage + 1) // stages
        part = WEIGHTS[first:end] + LAYERS[first + 1 : end + 1]
        assert row["parameters_bytes"] == row["optimizer_bytes"] == 4 * sum(part)
        ahead = min(micro_batches, stages - stage) if schedule == "1f1b" else micro_batches
        assert row["most_in_flight"] == ahead
        # Activations to the right, and the gradient of its input to the left.
        widths = [LAYERS[end]] * (stage + 1 < stages) + [LAYERS[first]] * (stage > 0)
        messages, sent = replicas_cost(replicas, part)
        costs.append((micro_batches * len(widths) + messages, BATCH // replicas * 4 * sum(widths) + sent))
    assert last["messages_per_rank"] == max(messages for messages, _ in costs)
    assert last["bytes_per_rank"] == max(sent for _, sent in costs)


def test_no_stage_relies_on_mpi_to_buffer() -> None:
    runs(2, f"pipeline_parallel {FLAGS} --steps 3 --strict")
