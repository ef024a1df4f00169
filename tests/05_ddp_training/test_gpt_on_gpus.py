"""On GPUs, a GPT has the losses that it has on the CPU."""

import pytest
from programs import gpus, runs
from training import near


def losses(ranks: int, device: str) -> list[float]:
    words = f"gpt_training --device {device} --json --max-steps 8 --batch-size 2 --lr 0.1"
    rows = runs(ranks, words, limit=300).rows
    return [row["loss"] for row in rows if "step" in row]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_steps_have_the_cpus_losses(ranks: int) -> None:
    if gpus() < 1:
        pytest.skip("needs a GPU")
    on_cpu = losses(ranks, "cpu")
    assert len(on_cpu) == 8 and on_cpu[-1] < 0.99 * on_cpu[0]
    assert losses(ranks, "cuda") == near(on_cpu)
