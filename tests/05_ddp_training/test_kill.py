"""A run that is killed loses at most one interval between checkpoints, and continues bit for bit."""

import os
import pathlib
import random
import re
import signal
import subprocess
import time

import pytest
from programs import BUILD, MPI_ENVIRONMENT, ROOT, runs
from resumed import check_that_it_goes_on, files, saved_step

from disturbed import LONG, SMALL, children, disturbed, steps_in, wait_until


@pytest.mark.parametrize("optimizer", ["adam", "sgd --momentum 0.9"])
def test_a_run_killed_at_random_moments_loses_at_most_one_interval(optimizer: str, tmp_path: pathlib.Path) -> None:
    chance = random.Random(1)

    def kill_the_first(_: int, ranks: list[int]) -> None:
        time.sleep(chance.uniform(0, 0.06))  # a step, a write or a rename may be going on
        os.kill(ranks[0], signal.SIGKILL)

    flags, resume, had = f"{LONG} --optimizer {optimizer} --checkpoint-every 3", "", 5
    for _ in range(8):
        killed = disturbed(tmp_path, 2, f"{flags} {files('cut')} {resume}", had, kill_the_first)
        assert killed.status == 137, killed.err
        saved = saved_step(tmp_path / "cut.st")
        assert saved % 3 == 0
        # The log may lag by one step, the file by three.
        assert saved + 4 > steps_in(tmp_path / "cut.jsonl")
        had, resume = saved + 5, "--resume"
    check_that_it_goes_on(tmp_path, 2, flags)
    assert not list(tmp_path.iterdir())  # no unfinished files are left


@pytest.mark.parametrize("seed", range(int(os.environ.get("LOSSES", 1))))
def test_a_run_that_loses_ranks_again_and_again_ends_with_the_same_bits(tmp_path: pathlib.Path, seed: int) -> None:
    """The loop of checkpoints.md, with a smaller job."""
    page = (ROOT / "05_ddp_training/advanced/checkpoints.md").read_text()
    loop = re.findall(r"\nranks=8.*?\ndone\n", page, re.S)[0]
    job = f"ddp_training {SMALL} --global-batch 64 --deterministic --max-steps 1000"
    chance, steps = random.Random(seed), 0
    with subprocess.Popen(
        ["bash", "-c", f'train="{BUILD}/bin/{job} --metrics run.jsonl"{loop}'],
        cwd=tmp_path,
        env={**MPI_ENVIRONMENT, **os.environ},
    ) as shell:
        for ranks in (8, 4, 2):
            steps += chance.randrange(5, 80)

            def trained(ranks: int = ranks, steps: int = steps) -> bool:
                return steps_in(tmp_path / "run.jsonl") >= steps and any(
                    len(children(pid)) == ranks for pid in children(shell.pid)
                )

            wait_until(trained, shell)
            (mpirun,) = children(shell.pid)
            os.kill(chance.choice(children(mpirun)), signal.SIGKILL)

            def ended(mpirun: int = mpirun) -> bool:
                return mpirun not in children(shell.pid)

            wait_until(ended, shell)
        assert shell.wait() == 0
    runs(8, f"{job} --metrics whole.jsonl --checkpoint whole.safetensors", tmp_path)
    assert (tmp_path / "run.jsonl").read_text() == (tmp_path / "whole.jsonl").read_text()
    saved = [(tmp_path / f"{name}.safetensors").read_bytes() for name in ("run", "whole")]
    # The header tells the number of ranks; the numbers follow it.
    parameters = [file[8 + int.from_bytes(file[:8], "little") :] for file in saved]
    assert parameters[0] == parameters[1]
