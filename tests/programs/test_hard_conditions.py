"""Training copes with what it meets: a full disk, an output that nobody takes, a container's small
/dev/shm, gradients that are not finite, and a number of samples that nothing divides."""
import json
import re
import struct

import pytest

from programs import HIDE_GPUS, command, refused, runs, says
from quota import quota_of

SMALL = "--dataset synthetic --samples 64 --layers 6,5,10 --batch-size 4"


def with_full_disk(flags, folder):
    """No file can grow beyond 8 blocks of 512 bytes. Emulated GPUs share memory in files, so they
    are hidden."""
    result = command(f"""exec mpirun -np 2 sh -c 'ulimit -f 8; exec "$@"' sh \\
                     $BIN/ddp_training {flags}""", folder, **HIDE_GPUS)
    assert result.status == 1, result
    return result


def test_on_a_full_disk_the_run_continues_without_metrics(tmp_path):
    result = with_full_disk(f"{SMALL} --max-steps 300 --checkpoint x --metrics m", tmp_path)
    error = "--metrics: m: cannot be written: File too large (see ulimit -f)"
    says(result, f"error: {error}; training continues without metrics\n", f"WRONG: {error}")
    rest = runs(2, f"ddp_training {SMALL} --json --resume --max-steps 301 --checkpoint x", tmp_path)
    assert len(rest.rows) == 2  # of step 300 and of the summary


def test_on_a_full_disk_the_previous_checkpoint_is_kept(tmp_path):
    job = "--dataset synthetic --samples 64 --layers 60,50,10 --batch-size 4 --checkpoint x"
    runs(2, f"ddp_training {job} --max-steps 3", tmp_path)
    before = (tmp_path / "x").read_bytes()
    says(with_full_disk(f"{job} --resume --checkpoint-every 1 --max-steps 9", tmp_path),
         "[rank 0] fatal: x: cannot be written: File too large")
    assert (tmp_path / "x").read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_on_a_full_disk_a_run_with_a_trace_is_not_verified(tmp_path):
    result = with_full_disk(f"{SMALL} --max-steps 50 --trace t", tmp_path)
    says(result, "fatal: --trace: t: cannot be written: File too large")
    assert "verified:" not in result.out


def test_a_run_that_is_refused_on_a_full_disk_leaves_no_file(tmp_path):
    result = command("""exec mpirun -np 2 sh -c 'ulimit -f 0; exec "$@"' sh """
                     f"$BIN/ddp_training {SMALL} --checkpoint x", tmp_path, **HIDE_GPUS)
    assert result.status == 2
    says(result, "error: --checkpoint: x: cannot be written: File too large (see ulimit -f)\n")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_written_where_a_link_of_another_folder_leads(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/latest").symlink_to("first")
    runs(2, f"ddp_training {SMALL} --max-steps 1 --checkpoint runs/latest", tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["first", "latest", "runs"]
    assert (tmp_path / "runs/latest").is_symlink() and (tmp_path / "runs/first").is_file()


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("content")
    (tmp_path / ".x.lock").symlink_to("precious")
    refused(f"ddp_training {SMALL} --checkpoint x",
            "--checkpoint: x: cannot be written: Too many levels of symbolic links",
            folder=tmp_path)
    assert (tmp_path / "precious").read_text() == "content"


@pytest.mark.parametrize("to", [">/dev/full", ">&-"])
def test_a_standard_output_that_cannot_be_written_is_an_error(tmp_path, to):
    def run(flags):
        return command(f"""exec mpirun -np 1 sh -c 'exec "$@" {to}' sh $BIN/ddp_training {flags}""",
                       tmp_path)

    result = run(f"{SMALL} --max-steps 3 --json --metrics m")
    assert result.status == 1
    says(result, "error: standard output cannot be written\n")
    assert (tmp_path / "m").read_text().count("\n") == 3  # no rows meant for standard output
    assert run("--help").status == 1


def test_a_rank_is_not_blamed_for_a_quota():
    with quota_of(0.3) as start:
        # Each step is longer than the 30 ms that rank 1 may use in a period, so each is paused.
        training = "$BIN/ddp_training --batch-size 1024 --max-steps 30"
        ranks = f"1 {training} : -np 1 {start} {training}"
        result = command(f"exec mpirun -np {ranks}", **HIDE_GPUS)
    assert result.status == 0, result.err
    slow = [line for line in result.out.splitlines() if line.startswith("slow: ")]
    assert len(slow) == 1 and re.fullmatch(
        r"slow: rank 1's control group may use 0.3 processors, and was paused in \d+ of \d+ periods",
        slow[0]), result.out


NARROW = "ddp_training --device cpu --layers 784,16,16,10"


@pytest.mark.parametrize("shard", ["none", "parameters"])
def test_a_run_that_diverged_replaces_no_checkpoint(tmp_path, shard):
    runs(2, f"{NARROW} --max-steps 1 --checkpoint x", tmp_path)
    before = (tmp_path / "x").read_bytes()
    # Without eps, Adam makes NaN of the weights of pixels that are always black: 0 / 0.
    says(runs(2, f"{NARROW} --max-steps 1 --eps 0 --shard {shard} --checkpoint x", tmp_path,
              status=1), "WRONG: training diverged by step 1, so x was not written")
    assert (tmp_path / "x").read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def with_number(path, name, index, number):
    """The parameters of a checkpoint, as a file of their own in which one number is changed."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, numbers = json.loads(data[8:8 + size]), bytearray(data[8 + size:])
    parameters = {key: value for key, value in header.items() if key[0].isdigit()}
    at = parameters[name]["data_offsets"][0] + 4 * index
    numbers[at:at + 4] = struct.pack("<f", number)
    text = json.dumps(parameters).encode()
    most = max(value["data_offsets"][1] for value in parameters.values())
    return len(text).to_bytes(8, "little") + text + numbers[:most]


@pytest.mark.parametrize("shard", ["optimizer", "parameters"])
def test_each_rank_says_whether_the_part_that_it_updates_diverged(tmp_path, shard):
    """A weight of a pixel that is always black changes no loss, but weight decay overflows."""
    runs(2, f"{NARROW} --max-steps 1 --checkpoint x", tmp_path)
    before = (tmp_path / "x").read_bytes()
    job = (f"{NARROW} --max-steps 1 --optimizer sgd --weight-decay 10 --init huge --shard {shard} "
           "--checkpoint x")
    for index, rank in ((15 * 784, 1), (0, 0)):  # the last and the first row of the first layer
        (tmp_path / "huge").write_bytes(with_number(tmp_path / "x", "0.weight", index, 3e38))
        says(runs(2, job, tmp_path, status=1),
             "WRONG: training diverged by step 1, so x was not written")
        assert (tmp_path / "x").read_bytes() == before, rank


def test_an_overflow_in_the_first_layer_shows_in_the_loss_at_once(tmp_path):
    runs(1, f"{NARROW} --max-steps 1 --checkpoint x", tmp_path)
    whole = (tmp_path / "x").read_bytes().replace(b"xxh3_64", b"xxh3_46")
    data = 8 + struct.unpack_from("<Q", whole)[0]
    (tmp_path / "x").write_bytes(whole[:data] + struct.pack("<f", 3e38) * (784 * 16)
                                 + whole[data + 4 * 784 * 16:])
    result = runs(2, f"{NARROW} --init x --max-steps 30 --json", tmp_path, status=1)
    says(result, "10 steps in a row had to be skipped")
    assert {row["loss"] for row in result.rows} == {None}


def test_accuracy_counts_every_sample_once_on_any_number_of_ranks(tmp_path):
    final = runs(1, "ddp_training --json --max-steps 5 --checkpoint x", tmp_path).rows[-1]
    for ranks in (2, 3, 7):
        tested = runs(ranks, "ddp_training --json --evaluate --init x", tmp_path).rows[-1]
        assert tested["test_accuracy"] == final["test_accuracy"]
    # Training reports what it does with the remainder.
    says(runs(3, "ddp_training --max-steps 1"), "2667 per rank (padded)")
    says(runs(3, "ddp_training --max-steps 1 --drop-last"), "2666 per rank,")


def in_container(shared_memory, program, folder):
    """Runs a program on 4 ranks with its own /dev/shm, as after docker run --shm-size. The watch
    keeps its memory elsewhere, and Open MPI falls back to TCP for what it cannot share."""
    prefix = ("unshare --map-root-user --mount sh -c "
              f"'mount -t tmpfs -o size={shared_memory} tmpfs /dev/shm && exec \"$@\"' sh")
    if command(f"{prefix} true").status != 0:
        pytest.skip("mounts are not allowed here")
    return command(f"exec {prefix} mpirun -np 4 $BIN/{program}", folder)


@pytest.mark.parametrize("size, trace", [
    ("16m", "--trace t"), ("1m", "--trace t"), ("64k", "--trace t"), ("64k", "")])
def test_programs_work_with_a_small_shared_memory(tmp_path, size, trace):
    for program in ("send_recv", "all_reduce_perf --max-bytes 4096 --iterations 2",
                    "ddp_training --max-steps 2"):
        result = in_container(size, f"{program} --timeout 30 {trace}", tmp_path)
        assert result.status == 0, result.out + result.err


@pytest.mark.parametrize("size", ["16m", "64k"])
def test_a_hang_report_is_complete_with_a_small_shared_memory(tmp_path, size):
    result = in_container(size, "../tests/hangs --case stopped --timeout 1 --trace t", tmp_path)
    assert result.status == 86
    says(result, "hang: ranks 0, 1, 3 are in MPI_Allreduce #1 (4 B); rank 2 never entered it\n"
         "hang: rank 2 is stopped (SIGSTOP)", "hang: the trace is in t\n")


@pytest.mark.parametrize("program", ["all_reduce_perf --max-bytes 65536 --iterations 2",
                                     "ddp_training --max-steps 2"])
def test_without_ptrace_no_rank_reads_another_ones_memory(program):
    runs(3, program, OMPI_MCA_btl_vader_single_copy_mechanism="none")
