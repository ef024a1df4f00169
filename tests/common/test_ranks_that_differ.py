"""Ranks that were started with different flags, builds or data, or as several worlds of one, are refused."""

from __future__ import annotations

import pathlib
import shutil
import struct

import pytest
from programs import BUILD, NO_GRACE, Result, command


def together(folder: pathlib.Path, first: str, second: str) -> Result:
    """Two ranks that run `first` and one that runs `second`."""
    return command(f"exec mpirun -np 2 {first} : -np 1 {second}", folder, **NO_GRACE)


def check_different(folder: pathlib.Path, first: str, second: str, error: str) -> None:
    result = together(folder, first, second)
    assert result.status == 2 and not result.out, result
    assert result.err.startswith("error: " + error), result.err


@pytest.mark.parametrize(
    "flags, error",
    [
        ("--lr 0.5", "--lr: 0.001 on rank 0, but 0.5 on rank 2"),
        ("--checkpoint x", "--checkpoint: nothing on rank 0, but x on rank 2"),
        ("--no-shuffle", "--shuffle: yes on rank 0, but no on rank 2"),
    ],
)
def test_different_flags_are_named(tmp_path: pathlib.Path, flags: str, error: str) -> None:
    check_different(tmp_path, "$BIN/ddp_training", f"$BIN/ddp_training {flags}", error)


def test_a_different_build_is_named(tmp_path: pathlib.Path) -> None:
    """One more byte, which does not change how the program runs, imitates an older build."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").symlink_to(BUILD / "lib")  # a program finds the watch from its own path
    old = shutil.copy(BUILD / "bin/ddp_training", tmp_path / "bin")
    with open(old, "ab") as file:
        file.write(b"\n")
    check_different(tmp_path, "$BIN/ddp_training", old, "the program's file: ")


def test_different_data_are_named(tmp_path: pathlib.Path) -> None:
    def on(name: str, last_pixel: int, flags: float = 0) -> str:
        (tmp_path / name).mkdir(exist_ok=True)
        images = struct.pack(">4I", 0x803, 20, 2, 2) + bytes([5] * 79 + [last_pixel])
        (tmp_path / name / "x-images-idx3-ubyte").write_bytes(images)
        labels = struct.pack(">2I", 0x801, 20) + bytes(i % 3 for i in range(20))
        (tmp_path / name / "x-labels-idx1-ubyte").write_bytes(labels)
        return f"$BIN/ddp_training --dataset idx --data {name} --batch-size 2 --max-steps 2 --test-fraction {flags}"

    one, two = on("one", 5), on("two", 6)
    check_different(tmp_path, one, two, "training data: idx, 20 samples")
    check_different(tmp_path, on("one", 5, 0.25), on("two", 6, 0.25), "test data: idx, 5 samples")
    same = together(tmp_path, one, on("same", 5))
    assert same.status == 0, same.err


def content(folder: pathlib.Path) -> dict[str, bytes | None]:
    """The folder's files and what they hold."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize(
    "flags, error",
    [
        (("", "--bad"), "error: --bad: unknown flag"),
        (("--seed x", ""), "error: --seed: 'x' is not"),
        (("", "--trace t.json"), "error: --trace: is not given to all ranks"),
    ],
)
def test_a_mistake_of_one_rank_alone_ends_all(flags: tuple[str, str], error: str, tmp_path: pathlib.Path) -> None:
    ranks = " : ".join(f"-np 1 $BIN/send_recv {each}" for each in flags)
    result = command(f"exec mpirun {ranks}", tmp_path, **NO_GRACE)
    assert result.status == 2 and result.err.startswith(error) and not result.out, result
    assert not content(tmp_path)


@pytest.mark.parametrize(
    "launch, launcher",
    [
        ("env PMI_SIZE=4 PMI_RANK=0", "MPICH's mpirun started 4"),
        ("env SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0", "Slurm's srun started 2"),
        (
            "cp /bin/sh slurmstepd; env SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 SLURM_PTY_PORT=9 "
            "./slurmstepd -c '\"$@\"; exit $?' sh",
            "Slurm's srun started 2",
        ),
        ("env PMIX_RANK=2", "a launcher with PMIx started 3"),
        ("env LEARN_RANKS=4", "the mpirun on the PATH started 4"),
        pytest.param(
            "mpirun.mpich -np 4",
            "MPICH's mpirun started 4",
            marks=pytest.mark.skipif(not shutil.which("mpirun.mpich"), reason="MPICH is not installed"),
        ),
    ],
)
def test_several_worlds_of_one(launch: str, launcher: str, tmp_path: pathlib.Path) -> None:
    """Each would be rank 0, verify its own result and write the others' files."""
    result = command(f"{launch} $BIN/ddp_training --metrics m.jsonl --trace t.json", tmp_path)
    assert result.status == 2 and not result.out and not {*content(tmp_path)} - {"slurmstepd"}
    assert result.err.startswith(f"error: {launcher} processes, ") and result.err.count("\n") == 1


@pytest.mark.parametrize(
    "launch",
    [
        "",
        "env SLURM_NTASKS=4 SLURM_PROCID=0",
        "env PMI_SIZE=1 PMI_RANK=0 SLURM_PROCID=3",
        # a shell of srun -n 4 --pty bash
        "env SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_PTY_PORT=9",
        "env PMI_SIZE=4 PMI_RANK=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_PTY_PORT=9",
        "env PMI_SIZE=4 SLURM_STEP_NUM_TASKS=4 mpirun -np 1",
    ],
)
def test_one_process_that_its_launcher_started_alone(launch: str) -> None:
    assert "\nverified" in command(f"{launch} $BIN/send_recv").out
