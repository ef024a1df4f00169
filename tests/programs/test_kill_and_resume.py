"""What is saved survives: a run that is killed or asked to stop continues where it was, on the same
number of ranks with the same bits, and on other numbers with a note about what changes."""
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time

import pytest

from disturbed import JOB, LONG, SMALL, children, disturbed, steps_in, wait_until
from programs import BUILD, MPI_ENVIRONMENT, ROOT, refused, runs, says
from resumed import check_that_it_goes_on, files, saved_step


@pytest.mark.parametrize("optimizer", ["adam", "sgd --momentum 0.9"])
def test_a_run_killed_at_random_moments_loses_at_most_one_interval(optimizer, tmp_path):
    chance = random.Random(1)

    def kill_the_first(_, ranks):
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


@pytest.mark.parametrize("seed", range(int(os.environ.get("LOSSES", 2))))
def test_a_run_that_loses_ranks_again_and_again_ends_with_the_same_bits(tmp_path, seed):
    """The loop of checkpoints.md, with a smaller job."""
    page = (ROOT / "05_ddp_training/advanced/checkpoints.md").read_text()
    loop = re.search(r"\nranks=8.*?\ndone\n", page, re.S)[0]
    job = f"ddp_training {SMALL} --global-batch 64 --deterministic --max-steps 1000"
    chance, steps = random.Random(seed), 0
    with subprocess.Popen(["bash", "-c", f'train="{BUILD}/bin/{job} --metrics run.jsonl"{loop}'],
                          cwd=tmp_path, env={**MPI_ENVIRONMENT, **os.environ}) as shell:
        for ranks in (8, 4, 2):
            steps += chance.randrange(5, 80)
            wait_until(lambda: steps_in(tmp_path / "run.jsonl") >= steps
                       and any(len(children(pid)) == ranks for pid in children(shell.pid)), shell)
            mpirun, = children(shell.pid)
            os.kill(chance.choice(children(mpirun)), signal.SIGKILL)
            wait_until(lambda: mpirun not in children(shell.pid), shell)
        assert shell.wait() == 0
    runs(8, f"{job} --metrics whole.jsonl --checkpoint whole.safetensors", tmp_path)
    assert (tmp_path / "run.jsonl").read_text() == (tmp_path / "whole.jsonl").read_text()
    saved = [(tmp_path / f"{name}.safetensors").read_bytes() for name in ("run", "whole")]
    # The header tells the number of ranks; the numbers follow it.
    parameters = [file[8 + int.from_bytes(file[:8], "little"):] for file in saved]
    assert parameters[0] == parameters[1]


def test_a_second_job_that_writes_to_the_same_files_is_refused(tmp_path):
    def start_another(_, ranks):
        for flag, name in (("--checkpoint", "st"), ("--metrics", "jsonl"), ("--trace", "json")):
            refused(f"ddp_training {JOB} {flag} cut.{name}", f"{flag}: cut.{name} is in use by "
                    f"{flag} of process {ranks[0]} on {socket.gethostname()}", folder=tmp_path)
        os.kill(ranks[0], signal.SIGKILL)

    flags = f"{LONG} --checkpoint-every 3 {files('cut')} --trace cut.json"
    assert disturbed(tmp_path, 2, flags, 5, start_another).status == 137
    check_that_it_goes_on(tmp_path, 2, LONG)  # at once


def ask_mpirun(mpirun, _):
    os.kill(mpirun, signal.SIGUSR1)  # mpirun passes it on


def ask_the_last(_, ranks):
    os.kill(ranks[-1], signal.SIGTERM)


@pytest.mark.parametrize("ask, flags", [
    (ask_mpirun, ""), (ask_the_last, ""), (ask_mpirun, "--pretend-link 0.1")])
def test_a_run_asked_to_stop_exits_with_75_and_continues(tmp_path, ask, flags):
    stopped = disturbed(tmp_path, 3, f"{LONG} {files('cut')} --json {flags}", 20, ask)
    assert stopped.status == 75, stopped.err
    row = stopped.rows[-1]
    assert row["stopped"] is True and row["steps"] == steps_in(tmp_path / "cut.jsonl")
    check_that_it_goes_on(tmp_path, 3, LONG)


def test_without_a_checkpoint_a_request_to_stop_ends_the_run(tmp_path):
    """The run could not be resumed, so the signal ends it as it would end any other program."""
    ended = disturbed(tmp_path, 3, f"{LONG} --metrics cut.jsonl", 20, ask_the_last)
    assert ended.status not in (0, 75)


def blocks_signals(rank):
    """Whether a rank holds back SIGUSR1, which it does before it calls MPI_Init."""
    mask = re.search(r"^SigBlk:\s*(\w+)", pathlib.Path(f"/proc/{rank}/status").read_text(), re.M)
    return int(mask[1], 16) >> (signal.SIGUSR1 - 1) & 1


@pytest.mark.parametrize("layers", ["784,10", "784,32,10", "784,512,512,512,10"])
def test_a_request_to_stop_may_come_early_and_often(tmp_path, layers):
    """Signals arrive in MPI_Init, while data are read, in the first step, or in mid-epoch."""
    chance = random.Random(layers)
    job, times = f"ddp_training --layers {layers}", 1

    def all_hold_signals(_, ranks):
        return len(ranks) == 4 and all(map(blocks_signals, ranks))

    def ask_often(mpirun, _):
        time.sleep(chance.uniform(0, 0.7))
        for _ in range(times):
            os.kill(mpirun, signal.SIGUSR1)

    for times in (30, 1, 30):
        stopped = disturbed(tmp_path, 4, f"--epochs 100000 --layers {layers} {files('cut')}",
                            all_hold_signals, ask_often)
        assert stopped.status == 75, stopped.err
        # The next steps equal those of a run that was never stopped.
        steps = steps_in(tmp_path / "cut.jsonl") + 2
        resumed = runs(4, f"{job} --max-steps {steps} {files('cut')} --resume --json", tmp_path)
        assert sum("step" in row for row in resumed.rows) == 2
        runs(4, f"{job} --max-steps {steps} --metrics whole.jsonl", tmp_path)
        assert (tmp_path / "cut.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
        for path in tmp_path.iterdir():
            path.unlink()


def test_on_other_ranks_a_run_continues_at_the_same_sample(tmp_path):
    # 3001 samples make 751 per rank: 58 batches of 13, in 29 steps, of which 10 are done.
    runs(4, f"ddp_training {JOB} --max-steps 10 {files('run')}", tmp_path)
    says(runs(2, f"ddp_training {JOB} --epochs 1 {files('run')} --resume", tmp_path),
         "2 ranks instead of 4: different batches from here on, "
         "52 samples per step instead of 104")
    # 3001 - 1040 samples are left, which make 981 per rank: 76 batches in 38 steps.
    assert steps_in(tmp_path / "run.jsonl") == 48
    assert '{"step":47,"epoch":0,' in (tmp_path / "run.jsonl").read_text()


@pytest.mark.parametrize("flags, before, steps", [
    # 40 samples are left after 30 of 31 steps: 10 for each of 4 ranks, which is less than a
    # batch. Two more epochs of 15 steps follow.
    ("--samples 1000 --loader-drop-last", 30, 60),
    # 2 samples are left, too few for 4 ranks. Two more epochs of one step follow.
    ("--samples 34 --drop-last", 1, 3)])
def test_if_too_few_samples_are_left_the_next_epoch_begins(tmp_path, flags, before, steps):
    job = (f"ddp_training --json --dataset synthetic --layers 6,5,10 --batch-size 16 {flags} "
           "--epochs 3 --checkpoint x")
    runs(2, f"{job} --max-steps {before}", tmp_path)
    assert runs(4, f"{job} --resume", tmp_path).rows[-1]["steps"] == steps
