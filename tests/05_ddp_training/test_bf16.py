"""--precision bf16: on a device without bf16 one sentence, otherwise nearly the losses of fp32."""

import pathlib
import re

import pytest
from programs import CACHE, EMULATED, Environment, gpus, mpirun, refused, runs, says
from training import near, train

JOB = (
    "--dataset synthetic --samples 300 --layers 20,33,17,5 --classes 5 --batch-size 16 "
    "--epochs 3 --first-bucket-mb 0.001 --bucket-cap-mb 0.002 "
)


@pytest.fixture(params=["cpu", "cuda"], scope="module")
def device(request: pytest.FixtureRequest) -> str:
    """Each device that can train in bf16."""
    if request.param == "cuda" and gpus() == 0:
        pytest.skip("no GPU")
    tried = mpirun(1, f"ddp_training {JOB} --max-steps 1 --precision bf16 --device {request.param}")
    if tried.status == 2:
        pytest.skip(re.findall("error: .*", tried.err)[0])
    assert tried.status == 0, tried.err
    return request.param


# With the variable for the CPU, oneDNN ignores what newer CPUs have.
@pytest.mark.parametrize(
    "device, variable, value, reason",
    [
        (
            "cpu",
            "ONEDNN_MAX_CPU_ISA",
            "AVX512_CORE",
            "a CPU with AMX or AVX-512 BF16, and this one has neither"
            if "OneDNN_LIBRARY:FILEPATH=/" in CACHE
            else "oneDNN, and this build has none",
        ),
        pytest.param(
            "cuda",
            "EMULATED_CAPABILITY",
            "7",
            "a GPU of compute capability 8.0 or newer, and cuda:0 has 7.x",
            marks=pytest.mark.skipif(not EMULATED, reason="needs an emulated old GPU"),
        ),
    ],
)
def test_a_device_without_bf16_is_refused(
    device: str, variable: str, value: str, reason: str, tmp_path: pathlib.Path
) -> None:
    setting: Environment = {variable: value}
    refused(
        f"ddp_training --precision bf16 --device {device} --checkpoint x",
        f"--precision: bf16 needs {reason}",
        folder=tmp_path,
        **setting,
    )
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_training_follows_fp32_and_can_be_repeated(device: str, ranks: int) -> None:
    job = f"--algorithm ring --device {device} {JOB}"
    plain, run, again = (train(ranks, f"{job} --precision {precision}") for precision in ("fp32", "bf16", "bf16"))
    assert plain.final["precision"] == "fp32" and run.final["precision"] == "bf16"
    assert run.final["replicas_identical"] is True
    assert run.losses == near(plain.losses, 2e-3) and run.losses[-1] != near(plain.losses[-1], 1e-6)
    assert run.losses == again.losses
    assert plain.final["memory"]["copies_bytes"] == 0
    inputs, weights = 16 * (20 + 33 + 17 + 33), 20 * 33 + 33 * 17 + 17 * 5
    assert run.final["memory"]["copies_bytes"] == 2 * (inputs + weights)
    if run.final["backend"] == "nccl":
        assert run.final["graph_nodes"] > plain.final["graph_nodes"]
        assert run.final["host_waits_per_step"] == run.final["allocations_per_step"] == 0


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_sharded_training_has_the_same_losses(device: str, ranks: int) -> None:
    job = f"--algorithm ring --device {device} {JOB} --backend ours --precision bf16"
    whole = train(ranks, job)
    for level in ("optimizer", "gradients", "parameters"):
        assert train(ranks, f"{job} --shard {level}").losses == whole.losses


def test_a_run_can_go_on_in_the_other_precision_and_says_so(device: str, tmp_path: pathlib.Path) -> None:
    job = f"ddp_training {JOB} --device {device} --checkpoint run.safetensors"
    runs(2, f"{job} --max-steps 9", tmp_path)
    rest = runs(2, f"{job} --resume --precision bf16 --max-steps 20", tmp_path)
    says(rest, "--precision: bf16 instead of fp32", "verified: ")
