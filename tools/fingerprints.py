#!/usr/bin/env python3
"""Whether two versions of the course train alike, bit for bit, on this machine.

    tools/fingerprints.py COMMIT [--only REGEX]

Builds COMMIT and the files as they are, on the CPU and emulated, in $NET (build/fingerprints), makes the runs
below with both, and compares each row that they print and the SHA-256 of each final parameter. A run is new if
COMMIT refuses it for lack of a flag or of its value. Nothing is kept: the same numbers are different ones on
another processor.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
PLACE = pathlib.Path(os.environ.get("NET", ROOT / "build/fingerprints")).resolve()
ENVIRONMENT = dict(
    line.split("=", 1) for line in (ROOT / "tools/learn/mpi.env").read_text().splitlines() if line[0] != "#"
)

# What must be equal. Times, memory and machines are not.
ROW = ("step", "epoch", "loss", "lr")
LAST = (
    "steps",
    "parameters",
    "replicas_identical",
    "test_accuracy",
    "skipped_steps",
    "backend",
    "algorithm",
    "ranks",
    "bytes_sent_per_step",
    "least_bytes_per_step",
)

ODD = "--dataset synthetic --samples 203 --classes 5 --layers 20,33,17,5 --batch-size 16 --epochs 2"
DIGITS = "--max-steps 12"
# Ranks, and the flags of one call or of several in one folder.
CPU: list[tuple[int, str] | tuple[int, str, str]] = [
    (1, DIGITS),
    (2, DIGITS),
    (3, DIGITS),
    (4, DIGITS),
    (7, DIGITS),
    (4, f"{DIGITS} --overlap"),
    (4, f"{DIGITS} --no-overlap --bucket-cap-mb 0.1"),
    (4, f"{DIGITS} --backend mpi"),
    (2, f"{DIGITS} --strict"),
    *(
        (4, f"{DIGITS} --algorithm {name}")
        for name in ("naive", "recursive-doubling", "ring-pipelined", "rabenseifner", "shared-memory", "hierarchical")
    ),
    (3, f"{ODD} --optimizer sgd"),
    (3, f"{ODD} --optimizer sgd --momentum 0.9 --nesterov"),
    (3, f"{ODD} --optimizer adamw --weight-decay 0.1"),
    (2, f"{ODD} --clip-norm 0.1"),
    (2, f"{ODD} --accumulate 3"),
    (2, f"{ODD} --scale-lr --warmup-steps 5"),
    (2, f"{ODD} --no-shuffle --drop-last"),
    (4, f"{ODD} --loader-drop-last --sampler-seed 3 --seed 5"),
    (2, f"{ODD} --threads 2"),
    (2, f"{DIGITS} --pretend-link 10"),
    *((4, f"{ODD} --shard {level}") for level in ("optimizer", "gradients", "parameters")),
    (1, f"{ODD} --deterministic"),
    (2, f"{ODD} --deterministic"),
    (4, f"{ODD} --deterministic"),
    (3, f"{ODD} --max-steps 5 --checkpoint c", f"{ODD} --checkpoint c --resume"),
    (2, f"{ODD} --shard parameters --max-steps 4 --checkpoint c", f"{ODD} --shard parameters --checkpoint c --resume"),
    (4, f"{ODD} --deterministic --max-steps 5 --checkpoint c", f"{ODD} --deterministic --checkpoint c --resume"),
]
GPU: list[tuple[int, str]] = [
    (1, DIGITS),
    (2, DIGITS),
    (4, DIGITS),
    (2, f"{ODD} --no-graph"),
    (3, f"{ODD} --backend ours --overlap"),
    (2, f"{ODD} --backend mpi"),
    (2, f"{ODD} --precision bf16"),
    (4, f"{ODD} --shard parameters"),
    (2, f"{ODD} --accumulate 3 --clip-norm 0.1"),
    (2, f"{ODD} --optimizer adamw"),
]
RUNS = [("cpu", ranks, calls) for ranks, *calls in CPU] + [("emulated", ranks, calls) for ranks, *calls in GPU]


def must(command: str, cwd: pathlib.Path | None = None) -> str:
    done = subprocess.run(command, shell=True, text=True, capture_output=True, cwd=cwd)
    if done.returncode != 0:
        sys.exit(f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def copy_of(commit: str | None, folder: pathlib.Path) -> None:
    """The files of a commit, or with None of the checkout as it is; those that are equal keep their times."""
    with tempfile.TemporaryDirectory() as fresh:
        git = f"git -c safe.directory='*' -C '{ROOT}'"
        if commit:
            must(f"{git} archive '{commit}' | tar -x -C {fresh}")
        else:
            must(f"{git} ls-files -z | tar -c -C '{ROOT}' --null -T - | tar -x -C {fresh}")
        folder.mkdir(parents=True, exist_ok=True)
        new = {path.relative_to(fresh) for path in pathlib.Path(fresh).rglob("*") if path.is_file()}
        for path in [path for path in folder.rglob("*") if path.is_file()]:
            if path.relative_to(folder) not in new:
                path.unlink()
        for name in new:
            source, target = fresh / name, folder / name
            if not target.exists() or source.read_bytes() != target.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)


def build(version: str, preset: str) -> pathlib.Path:
    print(f"building {version}, {preset}", flush=True)
    folder = PLACE / f"build-{version}-{preset}"
    must(f"cmake --preset {preset} -S {PLACE / version} -B {folder} -DDIST_TESTS=OFF", cwd=PLACE / version)
    must(f"cmake --build {folder} --target ddp_training")
    return folder / "bin/ddp_training"


def fingerprint(program: pathlib.Path, ranks: int, calls: list[str]) -> list[str | dict[str, Any]]:
    """What must be equal of the rows of all calls, or the last error."""
    rows: list[str | dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for flags in calls:
            done = subprocess.run(
                f"timeout -k 5 120 mpirun -np {ranks} {program} --json {flags}",
                shell=True,
                text=True,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env={**os.environ, **ENVIRONMENT, "EMULATED_GPUS": str(ranks)},
            )
            if done.returncode != 0:
                return [f"status {done.returncode}: {done.stderr[:200]}"]
            for row in map(json.loads, done.stdout.splitlines()):
                if "step" in row or "final" in row:  # a tested epoch's row is in the last one, too
                    rows.append({key: row.get(key) for key in (LAST if "final" in row else ROW)})
    return rows


def lacks_a_flag(rows: list[str | dict[str, Any]]) -> bool:
    """Whether a program has refused a run because it does not know a flag, or a name that is its value."""
    return any(isinstance(row, str) and re.search("unknown flag|is not one of", row) for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--only", default="", help="runs like this regular expression")
    options = parser.parse_args()
    runs = [run for run in RUNS if re.search(options.only, f"{run[0]} {run[1]} {run[2][0]}")]
    copy_of(options.commit, PLACE / "then")
    copy_of(None, PLACE / "now")
    programs = {
        (version, preset): build(version, preset)
        for preset in sorted({run[0] for run in runs})
        for version in ("then", "now")
    }
    counts = dict.fromkeys(("equal", "new", "DIFFERENT"), 0)
    for preset, ranks, calls in runs:
        then, now = (fingerprint(programs[version, preset], ranks, calls) for version in ("then", "now"))
        trained = isinstance(now[-1], dict) and now[-1].get("parameters")
        verdict = "equal" if then == now and trained else "new" if trained and lacks_a_flag(then) else "DIFFERENT"
        counts[verdict] += 1
        print(f"{verdict}: {preset}, ranks: {ranks}, {', then '.join(calls)}", flush=True)
        for one, other in zip(then, now):
            if verdict == "DIFFERENT" and (one != other or not trained):
                print(f"  {str(one)[:300]}\n  {str(other)[:300]}")
                break
    print(f"{len(runs)} runs, {counts['DIFFERENT']} different, {counts['new']} new")
    return 1 if counts["DIFFERENT"] or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
