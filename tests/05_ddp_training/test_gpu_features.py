"""The trainer with each of its features, on whatever GPUs there are: it learns what it learns on
the CPU."""

import pathlib

import pytest
from training import LATER, assert_twins, train

pytestmark = pytest.mark.usefixtures("a_gpu")  # else the CPU would be compared with itself

# 203 samples divide evenly by no number of ranks or rows, so the last batches are short.
ODD = (
    "--dataset synthetic --samples 203 --classes 5 --layers 20,33,17,5 --epochs 3 "
    "--batch-size 7 --first-bucket-mb 0.001 --bucket-cap-mb 0.002 "
)


@pytest.mark.parametrize(
    "feature",
    [
        "",
        "--no-graph",
        "--backend mpi",
        "--backend ours --overlap",
        "--accumulate 3",
        "--clip-norm 0.5",
        "--shard optimizer",
        "--shard gradients",
        "--shard parameters",
        "--shard parameters --accumulate 2 --clip-norm 0.5",
        "--loader-drop-last",
        "--check-replicas 3",
        "--batch-size 1",
        "--batch-size 67",
        "--layers 20,5",
        "--layers 20,1,3,5",
        "--layers 20,127,5",
        "--optimizer sgd --momentum 0.9 --nesterov",
        "--optimizer adamw --warmup-steps 5 --scale-lr",
    ],
)
def test_each_feature_learns_on_a_gpu_what_it_learns_on_a_cpu(feature: str) -> None:
    run = train(3, ODD + feature)
    assert run.final["device"].startswith("cuda")
    assert run.final["replicas_identical"] is not False  # None if no rank has a replica
    assert_twins(run.losses, train(3, f"{ODD} {feature} --device cpu").losses, LATER)


@pytest.mark.parametrize("feature", ["", "--accumulate 3", "--shard parameters"])
def test_a_checkpoint_in_mid_epoch_continues_to_the_same_bits(feature: str, tmp_path: pathlib.Path) -> None:
    job = f"{ODD} {feature} --checkpoint run.safetensors"
    whole = train(3, job, tmp_path)
    train(3, f"{job} --max-steps 5", tmp_path)
    rest = train(3, f"{job} --resume", tmp_path)
    assert rest.parameters == whole.parameters and len(rest.steps) == len(whole.steps) - 5
