"""ddp_training and PyTorch train alike, and each reads the other's files. $PYTHON names a Python
that has PyTorch."""

import json
import pathlib

import pytest
from programs import ROOT
from pytorch import TWIN, python_with, theirs, torchrun
from training import Training, assert_same_model, assert_twins, near, train


def test_pytorch_twin_prints_the_losses_of_our_program_on_two_ranks(tmp_path: pathlib.Path) -> None:
    python = python_with("torch.distributed")
    twin = Training(theirs(f"{torchrun(python)} {TWIN} --checkpoint twin.pt", tmp_path))
    ours = train(2, "--device cpu --dataset synthetic")
    assert_twins(ours.losses, twin.losses)
    # PyTorch's checkpoint has the names of our parameters, without "module.".
    script = 'import json, torch; print(json.dumps(list(torch.load("twin.pt"))))'
    names = theirs(f"{python} -c '{script}'", tmp_path).out
    assert {*json.loads(names)} == {*ours.parameters}


def test_pytorch_twin_prints_the_losses_of_our_program_in_one_process() -> None:
    twin = Training(theirs(f"{python_with('torch.distributed')} {TWIN}"))
    assert_twins(train(1, "--device cpu --dataset synthetic").losses, twin.losses)


# These jobs cover what no golden run does: Nesterov, dampening, L2 in Adam, betas and eps, a
# learning rate that changes, clipped gradients, one batch divided among the ranks, ranks whose
# only batch is short, samples that are repeated several times, and several hidden layers.
JOBS = [
    (
        2,
        "--seed 5 --samples 150 --layers 20,33,17,5 --classes 5 --batch-size 9 --epochs 3 "
        "--optimizer sgd --lr 0.05 --momentum 0.9 --nesterov --weight-decay 0.01",
    ),
    (
        3,
        "--seed 4294967299 --samples 100 --layers 7,40,3 --classes 3 --batch-size 16 --epochs 2 "
        "--optimizer sgd --lr 0.1 --momentum 0.8 --dampening 0.3 --sampler-seed 123 --drop-last",
    ),
    (
        4,
        "--seed 9 --samples 20 --layers 16,32,4 --classes 4 --batch-size 16 --epochs 6 "
        "--optimizer adam --lr 0.01 --weight-decay 0.1 --betas 0.8,0.95 --eps 1e-6",
    ),
    (
        3,
        "--seed 1 --samples 96 --layers 10,24,24,6 --classes 6 --global-batch 24 --epochs 3 "
        "--optimizer adamw --lr 0.01 --weight-decay 0.1 --warmup-steps 5 --no-shuffle",
    ),
    (
        4,
        "--seed 2 --samples 203 --layers 30,64,8 --classes 8 --batch-size 12 --max-steps 15 "
        "--optimizer sgd --lr 0.02 --momentum 0.9 --scale-lr --warmup-steps 7 --loader-drop-last",
    ),
    (
        3,
        "--seed 6 --samples 120 --layers 20,30,30,5 --classes 5 --batch-size 10 --epochs 4 "
        "--optimizer sgd --lr 0.2 --momentum 0.9 --weight-decay 0.01 --clip-norm 0.4",
    ),
    (1, "--seed 3 --samples 70 --layers 12,50,20,4 --classes 4 --batch-size 32 --epochs 4 --optimizer adamw"),
]


@pytest.mark.parametrize(
    "ranks, job", [pytest.param(*job, marks=[] if place == 0 else [pytest.mark.long]) for place, job in enumerate(JOBS)]
)
def test_pytorch_ddp_has_the_same_losses_step_by_step(ranks: int, job: str) -> None:
    flags = f"--device cpu --dataset synthetic {job}"
    peer = f"{python_with('torch.distributed')} {ROOT}/bench/peers/pytorch_ddp.py"
    pytorch = Training(theirs(f"exec mpirun -np {ranks} {peer} --json {flags}"))
    ours = train(ranks, flags)
    assert ours.rates == pytorch.rates
    assert ours.losses == near(pytorch.losses)
    assert_same_model(ours.parameters, pytorch.parameters)
    assert pytorch.final["step_ms"] > 0


# Loads "ours" into a PyTorch model, prints what strict loading would reject and the hash of every
# parameter, and then doubles the parameters and saves them as "theirs".
SCRIPT = """
import hashlib, json, torch
from safetensors.torch import load_file, save_file
model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
answer = model.load_state_dict(load_file("ours"), strict=False)
hashes = lambda: {name: hashlib.sha256(tensor.detach().numpy().tobytes()).hexdigest()
                  for name, tensor in model.state_dict().items()}
print(json.dumps({"missing": answer.missing_keys, "unexpected": answer.unexpected_keys,
                  "sha256": hashes()}))
with torch.no_grad():
    for parameter in model.parameters():
        parameter *= 2
save_file(model.state_dict(), "theirs")
print(json.dumps({"sha256": hashes()}))
"""


def test_pytorch_loads_our_checkpoint_and_we_start_from_its_file(tmp_path: pathlib.Path) -> None:
    python = python_with("safetensors.torch")
    flags = "--dataset synthetic --samples 64 --layers 6,5,3 --classes 3"
    ours = train(2, f"{flags} --checkpoint ours", tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    loaded, doubled = theirs(f"{python} script.py", tmp_path).rows
    assert loaded["missing"] == []
    assert all(name.startswith("optimizer.") for name in loaded["unexpected"])
    assert loaded["sha256"] == ours.hashes
    from_theirs = train(3, f"{flags} --max-steps 1 --lr 0 --init theirs", tmp_path)
    assert from_theirs.hashes == doubled["sha256"] != loaded["sha256"]


@pytest.mark.long
def test_todays_pytorch_gives_what_the_golden_files_say() -> None:
    python = python_with("numpy, torch.distributed")
    version, *said = theirs(f"{python} {ROOT}/tests/golden/make_golden.py").out.splitlines()
    named = {line.partition(":")[0] for line in said}
    assert named == {path.stem for path in (ROOT / "tests/golden").glob("*.json")}
    assert [line for line in said if not line.endswith(": as in the file")] == [
        "hooks: left out: PyTorch 1.13 has no bf16 on CPUs"
    ] * version.startswith("PyTorch 1.")
