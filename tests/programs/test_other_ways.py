"""Tensor and pipeline parallelism train what one process trains, and cost what their page says."""
import pytest

from programs import runs

LAYERS, BATCH = [784, 64, 48, 32, 10], 32
FLAGS = f"--json --layers {','.join(map(str, LAYERS))} --batch-size {BATCH}"
WEIGHTS = [i * o for i, o in zip(LAYERS, LAYERS[1:])]


def trained(ranks, program):
    """The rows of the ranks and the last row, of a run that has compared itself with one process."""
    rows = runs(ranks, f"{program} {FLAGS}").rows
    assert sum("step" in row for row in rows) == 100
    assert rows[-1]["parameter_difference"] < 1e-3 and rows[-1]["loss_difference"] < 1e-5
    return rows[-1 - ranks:-1], rows[-1]


def ring(ranks, count):
    """The bytes that a rank sends in a ring all-reduce of so many floats."""
    return 2 * (ranks - 1) * count // ranks * 4


def replicas_cost(replicas, parameters):
    """Messages and bytes for the average of two gradients per layer, with so many numbers."""
    return 2 * (replicas - 1) * len(parameters), sum(ring(replicas, count) for count in parameters)


@pytest.mark.parametrize("ranks, replicas", [(1, 1), (2, 1), (4, 1), (2, 2), (4, 2)])
def test_tensor_parallelism(ranks, replicas):
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


def test_layers_need_not_be_divisible():
    every, _ = trained(3, "tensor_parallel")
    assert len({row["parameters_bytes"] for row in every}) > 1


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("ranks, replicas", [(1, 1), (2, 1), (4, 1), (2, 2), (4, 2)])
def test_pipeline_parallelism(ranks, replicas, schedule):
    stages, micro_batches = ranks // replicas, 8
    every, last = trained(ranks, f"pipeline_parallel --schedule {schedule} --data-parallel {replicas}")
    costs = []
    for rank, row in enumerate(every):
        stage = rank % stages
        first, end = 4 * stage // stages, 4 * (stage + 1) // stages
        part = WEIGHTS[first:end] + LAYERS[first + 1:end + 1]
        assert row["parameters_bytes"] == row["optimizer_bytes"] == 4 * sum(part)
        ahead = min(micro_batches, stages - stage) if schedule == "1f1b" else micro_batches
        assert row["most_in_flight"] == ahead
        # Activations to the right, and the gradient of its input to the left.
        widths = [LAYERS[end]] * (stage + 1 < stages) + [LAYERS[first]] * (stage > 0)
        messages, sent = replicas_cost(replicas, part)
        costs.append((micro_batches * len(widths) + messages,
                      BATCH // replicas * 4 * sum(widths) + sent))
    assert last["messages_per_rank"] == max(messages for messages, _ in costs)
    assert last["bytes_per_rank"] == max(sent for _, sent in costs)


def test_no_stage_relies_on_mpi_to_buffer():
    runs(2, f"pipeline_parallel {FLAGS} --steps 3 --strict")
