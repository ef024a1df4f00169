"""Files of saved runs of ddp_training, and the proof that such a run continues exactly."""

import json
import pathlib

from programs import runs

from disturbed import steps_in


def files(name: str) -> str:
    return f"--checkpoint {name}.st --metrics {name}.jsonl"


def saved_step(path: pathlib.Path) -> int:
    """The step in a checkpoint's metadata."""
    with open(path, "rb") as file:
        header = file.read(int.from_bytes(file.read(8), "little"))
    return int(json.loads(header)["__metadata__"]["step"])


def check_that_it_goes_on(folder: pathlib.Path, ranks: int, flags: str, more_steps: int = 40) -> None:
    """Resumes the run saved in the files "cut". After some more steps, its parameters, optimizer
    state and log must equal those of a run that was never interrupted, bit for bit."""
    steps = steps_in(folder / "cut.jsonl") + more_steps
    until = f"ddp_training {flags} --json --max-steps {steps}"
    *taken, final = runs(ranks, f"{until} {files('cut')} --resume", folder).rows
    whole = runs(ranks, f"{until} {files('whole')}", folder).rows[-1]
    assert len(taken) < steps == final["steps"] and final["parameters"] == whole["parameters"]
    for kind in ("st", "jsonl"):
        cut, other = folder / f"cut.{kind}", folder / f"whole.{kind}"
        assert cut.read_bytes() == other.read_bytes()
        cut.unlink()
        other.unlink()
