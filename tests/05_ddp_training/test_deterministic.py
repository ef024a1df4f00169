"""ddp_training --deterministic: the same steps on 1, 2, 4 and 8 ranks, bit for bit."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
from programs import ROOT, runs, says
from training import Training, assert_same_model, near, train

JOB = "--dataset synthetic --samples 1003 --layers 20,33,17,5 --classes 5 --epochs 2 "
Same = tuple[list[dict[str, Any]], list[Any]]


def same_on_all_ranks(run: Training) -> Same:
    """What must not depend on the number of ranks: all of a step's row, and of the final row the
    parameters and what they are good for."""
    final = [run.final[key] for key in ("steps", "parameters", "test_accuracy")]
    return run.steps, final


def on(ranks: int, flags: str, folder: pathlib.Path | None = None) -> Same:
    run = train(ranks, flags, folder)
    assert run.final["ranks"] == ranks and run.final["replicas_identical"] is True
    return same_on_all_ranks(run)


# Of 1003 samples, each virtual rank gets 126 (padded) or 125. With batches of 40 = 8 x 5, the last
# step of a padded epoch has one row for each virtual rank. With batches of 24 = 8 x 3 and
# --drop-last, the last step has two rows for each.
@pytest.mark.parametrize(
    "flags, steps",
    [
        ("--global-batch 40", 2 * 26),
        ("--global-batch 40 --loader-drop-last --optimizer sgd --momentum 0.9", 2 * 25),
        ("--global-batch 24 --optimizer adamw --warmup-steps 5", 2 * 42),
        ("--global-batch 24 --drop-last --optimizer sgd --momentum 0.9 --nesterov", 2 * 42),
        ("--global-batch 24 --drop-last --loader-drop-last --no-shuffle", 2 * 41),
        ("--global-batch 8 --max-steps 30", 30),
    ],
)
def test_all_numbers_of_ranks_take_the_same_steps(flags: str, steps: int) -> None:
    alone = on(1, f"{JOB} {flags} --deterministic")
    assert len(alone[0]) == steps
    for ranks in (2, 4, 8):
        assert on(ranks, f"{JOB} {flags} --deterministic") == alone


@pytest.mark.quick
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_a_run_stopped_on_4_ranks_continues_bit_for_bit(ranks: int, tmp_path: pathlib.Path, whole: Same) -> None:
    job = f"{JOB} --global-batch 40 --deterministic --checkpoint run.safetensors"
    begun, _ = on(4, f"{job} --max-steps 17", tmp_path)  # in mid-epoch
    rest, final = on(ranks, f"{job} --resume", tmp_path)
    assert (begun + rest, final) == whole


@pytest.fixture(scope="module")
def whole() -> Same:
    return on(2, f"{JOB} --global-batch 40 --deterministic")


def test_the_page_shows_what_the_flag_is_for() -> None:
    """When training on the digits, with large matrix products, the last bits depend on the
    processor. After 31 steps of Adam, those bits can change the loss by a thousandth."""
    page = (ROOT / "05_ddp_training/advanced/determinism.md").read_text()
    flags = re.findall(r"mpirun -np \$n build/bin/ddp_training --json (.*) \|", page)[0]
    rows = re.findall(r"^\| (\d) \| ([\d.]+) \| ([\d.]+) \|$", page, re.M)
    shown = {int(ranks): (float(usual), float(fixed)) for ranks, usual, fixed in rows}
    assert [*shown] == [1, 2, 4, 8] and len({fixed for _, fixed in shown.values()}) == 1
    alone = on(1, f"{flags} --deterministic")
    for ranks, (usual, fixed) in shown.items():
        assert on(ranks, f"{flags} --deterministic") == alone
        without = on(ranks, flags)
        assert without != alone  # which shows that the line before can fail
        assert without[0][31]["loss"] == near(usual, 5e-3)
        assert alone[0][31]["loss"] == near(fixed, 5e-3)


def test_the_results_are_those_of_data_parallelism_on_8_ranks() -> None:
    job = JOB + "--global-batch 40 --optimizer sgd --lr 0.1"
    usual, fixed = train(8, job), train(2, f"{job} --deterministic")
    assert fixed.losses == near(usual.losses)
    assert_same_model(fixed.parameters, usual.parameters)
    assert fixed.final["algorithm"] == "fixed-tree" and fixed.final["backend"] == "ours"
    assert fixed.final["exposed_comm_ms"] == fixed.final["comm_ms"]


def test_the_learning_rate_is_scaled_for_8_ranks() -> None:
    """--batch-size counts per process, so 8 on each of 8 ranks corresponds to 64 on one."""
    job = JOB + "--max-steps 10 --deterministic --scale-lr"
    one, four = train(1, f"{job} --batch-size 64"), train(4, f"{job} --batch-size 16")
    assert one.rates == four.rates == 10 * [0.008]
    assert one.losses == four.losses


# The second model has 1 Mi numbers.
@pytest.mark.parametrize(
    "ranks, job, cost",
    [
        (
            2,
            JOB,
            "8 virtual ranks, 4 on each process; matrix products of 5 rows instead of 20; 2 more "
            "gradient buffers, 0.0 MiB",
        ),
        (
            4,
            "--dataset synthetic --samples 80 --layers 1023,1024 --classes 1024 ",
            "8 virtual ranks, 2 on each process; matrix products of 5 rows instead of 10; 1 more "
            "gradient buffer, 4.0 MiB",
        ),
    ],
)
def test_a_run_says_what_the_flag_costs(ranks: int, job: str, cost: str) -> None:
    result = runs(ranks, f"ddp_training {job} --global-batch 40 --max-steps 2 --deterministic")
    says(result, f"deterministic: {cost}\n")


@pytest.mark.parametrize("flag", ["--backend ours", "--backend auto", "--no-overlap", "--accumulate 1", "--threads 1"])
def test_the_default_of_a_flag_is_accepted(flag: str) -> None:
    train(2, f"{JOB} --deterministic --global-batch 40 --max-steps 2 {flag}")
