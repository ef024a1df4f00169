"""The memory of a rank: each part as a count by hand gives it, and the whole as the kernel sees it."""

import pytest
from programs import SANITIZED, runs

PARTS = ["parameters_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes"]

ON_CPU = "ddp_training --json --device cpu --dataset synthetic "


def memory_of(ranks: int, flags: str) -> dict[str, int]:
    return runs(ranks, ON_CPU + flags).rows[-1]["memory"]


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("optimizer, copies", [("adam", 2), ("sgd", 0), ("sgd --momentum 0.9", 1)])
def test_the_tensors_of_a_rank_take_what_a_count_by_hand_says(ranks: int, optimizer: str, copies: int) -> None:
    memory = memory_of(
        ranks, f"--samples 96 --layers 20,33,5 --classes 5 --batch-size 16 --epochs 1 --optimizer {optimizer}"
    )
    parameters = 4 * (33 * 20 + 33 + 5 * 33 + 5)
    # 16 rows of each layer's output, and the same amount for the gradients.
    activations = 2 * 4 * 16 * (33 + 5)
    assert [memory[part] for part in PARTS] == [parameters, parameters, copies * parameters, activations]
    assert memory["peak_bytes"] >= memory["before_model_bytes"]


@pytest.mark.parametrize("ranks", [1, 4])
def test_the_kernel_counts_little_more_than_the_program(ranks: int) -> None:
    memory = memory_of(ranks, "--samples 64 --layers 784,2048,2048,10 --batch-size 8 --max-steps 2")
    counted = sum(memory[part] for part in PARTS)
    before, peak = memory["before_model_bytes"], memory["peak_bytes"]
    assert counted > 88 << 20 and before > 1 << 20 and peak >= counted
    # The rest is for batches, the matrix library, and what MPI allocates while it runs. One more
    # copy of the gradients would take 22 MiB. A sanitizer itself uses a lot of memory.
    assert SANITIZED or peak <= before + counted + (18 << 20)
