"""On a full disk, training keeps the previous checkpoint, goes on without metrics, or refuses to start."""

import pathlib

from programs import HIDE_GPUS, Result, command, runs, says
from training import SMALL


def with_full_disk(flags: str, folder: pathlib.Path) -> Result:
    """No file can grow beyond 8 blocks of 512 bytes. Emulated GPUs share memory in files, so they
    are hidden."""
    result = command(
        f"""exec mpirun -np 2 sh -c 'ulimit -f 8; exec "$@"' sh \\
                     $BIN/ddp_training {flags}""",
        folder,
        **HIDE_GPUS,
    )
    assert result.status == 1, result
    return result


def test_on_a_full_disk_the_run_continues_without_metrics(tmp_path: pathlib.Path) -> None:
    result = with_full_disk(f"{SMALL} --max-steps 300 --checkpoint x --metrics m", tmp_path)
    error = "--metrics: m: cannot be written: File too large (see ulimit -f)"
    says(result, f"error: {error}; training continues without metrics\n", f"WRONG: {error}")
    rest = runs(2, f"ddp_training {SMALL} --json --resume --max-steps 301 --checkpoint x", tmp_path)
    assert len(rest.rows) == 2  # of step 300 and of the summary


def test_on_a_full_disk_the_previous_checkpoint_is_kept(tmp_path: pathlib.Path) -> None:
    job = "--dataset synthetic --samples 64 --layers 60,50,10 --batch-size 4 --checkpoint x"
    runs(2, f"ddp_training {job} --max-steps 3", tmp_path)
    before = (tmp_path / "x").read_bytes()
    says(
        with_full_disk(f"{job} --resume --checkpoint-every 1 --max-steps 9", tmp_path),
        "[rank 0] fatal: x: cannot be written: File too large",
    )
    assert (tmp_path / "x").read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_on_a_full_disk_a_run_with_a_trace_is_not_verified(tmp_path: pathlib.Path) -> None:
    result = with_full_disk(f"{SMALL} --max-steps 50 --trace t", tmp_path)
    says(result, "fatal: --trace: t: cannot be written: File too large")
    assert "verified:" not in result.out


def test_a_run_that_is_refused_on_a_full_disk_leaves_no_file(tmp_path: pathlib.Path) -> None:
    result = command(
        """exec mpirun -np 2 sh -c 'ulimit -f 0; exec "$@"' sh """
        f"$BIN/ddp_training {SMALL} --checkpoint x",
        tmp_path,
        **HIDE_GPUS,
    )
    assert result.status == 2
    says(result, "error: --checkpoint: x: cannot be written: File too large (see ulimit -f)\n")
    assert list(tmp_path.iterdir()) == []
