"""Runs of ddp_training that a test disturbs, and the proof that a saved run continues exactly."""
import json
import os
import pathlib
import shlex
import subprocess
import tempfile
import time

from programs import BUILD, MPI_ENVIRONMENT, Result, runs

SMALL = "--dataset synthetic --samples 3001 --layers 64,96,32,10"
JOB = f"{SMALL} --batch-size 13 --accumulate 2"  # two uneven batches per step
# So many steps that the run cannot end before it is disturbed.
LONG = JOB + " --max-steps 1000000"


def files(name):
    return f"--checkpoint {name}.st --metrics {name}.jsonl"


def children(pid):
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()]


def lines(path):
    return path.read_text().count("\n") if path.exists() else 0


def saved_step(path):
    """The step in a checkpoint's metadata."""
    with open(path, "rb") as file:
        header = file.read(int.from_bytes(file.read(8), "little"))
    return int(json.loads(header)["__metadata__"]["step"])


def wait_until(event, process):
    """Waits until event() is true, or the process has ended."""
    while process.poll() is None and not event():
        time.sleep(0.01)


def disturbed(folder, ranks, flags, event, action, limit=120):
    """Starts ddp_training in `folder`, waits for the event, and acts. The result is mpirun's.

    `event` is a number of lines in cut.jsonl, or a function. Functions are called with the
    process ids of mpirun and of the ranks, in order.
    """
    words = ["timeout", "-k", "10", str(limit), "mpirun", "-np", str(ranks), BUILD / "bin/ddp_training"]

    def happened():
        if isinstance(event, int):
            return lines(folder / "cut.jsonl") >= event
        return bool(mpirun := children(process.pid)) and event(mpirun[0], children(mpirun[0]))

    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen([*words, *shlex.split(flags)], cwd=folder,
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   env={**MPI_ENVIRONMENT, **os.environ})
        try:
            wait_until(happened, process)
            if process.poll() is None:
                mpirun, = children(process.pid)
                action(mpirun, children(mpirun))
            process.wait()
        finally:
            process.terminate()  # does nothing if the run has ended
        out.seek(0)
        err.seek(0)
        status = process.returncode
        return Result(status if status >= 0 else 128 - status, out.read(), err.read())


def check_that_it_goes_on(folder, ranks, flags, more_steps=40):
    """Resumes the run saved in the files "cut". After some more steps, its parameters, optimizer
    state and log must equal those of a run that was never interrupted, bit for bit."""
    steps = lines(folder / "cut.jsonl") + more_steps
    until = f"ddp_training {flags} --json --max-steps {steps}"
    *taken, final = runs(ranks, f"{until} {files('cut')} --resume", folder).rows
    whole = runs(ranks, f"{until} {files('whole')}", folder).rows[-1]
    assert len(taken) < steps == final["steps"] and final["parameters"] == whole["parameters"]
    for kind in ("st", "jsonl"):
        cut, other = folder / f"cut.{kind}", folder / f"whole.{kind}"
        assert cut.read_bytes() == other.read_bytes()
        cut.unlink()
        other.unlink()
