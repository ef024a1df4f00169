"""Training runs that PyTorch recorded (tests/golden) give the same losses and parameters here."""

import re
from typing import Any

import pytest
from programs import ROOT
from training import GOLDEN, golden_id, near, repeat, train


@pytest.mark.quick
@pytest.mark.parametrize("golden", GOLDEN, ids=golden_id)
def test_training_runs_of_pytorch_are_reproduced(golden: dict[str, Any]) -> None:
    repeat(golden, "--device cpu")


def test_the_page_on_optimizers_shows_the_losses_of_its_job_and_pytorchs() -> None:
    page = (ROOT / "05_ddp_training/advanced/optimizers.md").read_text()
    run = train(3, "--dataset synthetic " + re.findall(r'\njob="(.*?)"', page, re.S)[0])
    shown = re.findall(r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", page, re.M)
    assert [int(step) for step, *_ in shown] == [*range(len(run.losses))]
    for column in (1, 2, 3):
        assert [float(row[column]) for row in shown] == near(run.losses)
