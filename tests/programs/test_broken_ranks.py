"""One rank is broken: killed, stopped, slow, out of memory, or part of a different run. The others
do not wait for it forever: the job ends, and says what is wrong with which rank."""
import os
import pathlib
import re
import shutil
import signal
import struct
import time

import pytest

from disturbed import JOB, LONG, disturbed
from programs import BUILD, HIDE_GPUS, NO_GRACE, SANITIZED, command, runs, says

METRICS = "--metrics cut.jsonl"


def alive(rank):
    try:
        state = pathlib.Path(f"/proc/{rank}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return re.search(r"^State:\s*[RSDT] ", state, re.M)


def test_killing_one_rank_ends_all(tmp_path):
    all_ranks = []

    def kill_the_last(_, ranks):
        all_ranks.extend(ranks)
        os.kill(ranks[-1], signal.SIGKILL)

    assert disturbed(tmp_path, 4, f"{LONG} {METRICS}", 10, kill_the_last).status == 137
    limit = time.monotonic() + 60
    while any(map(alive, all_ranks)):
        assert time.monotonic() < limit, "a rank is still alive"
        time.sleep(0.01)


def test_an_exception_on_one_rank_ends_all(tmp_path):
    """The folder is moved away after the first checkpoint, so only rank 0, which writes, throws."""
    folder = tmp_path / "gone"
    folder.mkdir()
    result = disturbed(tmp_path, 3, f"{LONG} --checkpoint-every 1 --checkpoint gone/x",
                       lambda *_: (folder / "x").exists(),
                       lambda *_: folder.rename(tmp_path / "away"))
    assert result.status == 1
    says(result, "[rank 0] fatal: gone/x")


def processor_ms(rank):
    return int(pathlib.Path(f"/proc/{rank}/schedstat").read_text().split()[0]) / 1e6


def test_the_slow_rank_is_named(tmp_path):
    """Each step takes longer than the short intervals in which the last rank may run. On a GPU, the
    host would write no metrics in time."""
    def slow_down(_, ranks):
        try:
            while True:
                os.kill(ranks[-1], signal.SIGSTOP)
                time.sleep(0.1)
                before, limit = processor_ms(ranks[-1]), time.monotonic() + 0.1
                os.kill(ranks[-1], signal.SIGCONT)
                while processor_ms(ranks[-1]) < before + 2 and time.monotonic() < limit:
                    time.sleep(0.001)
        except (FileNotFoundError, ProcessLookupError):
            pass  # the run has ended

    flags = f"--json --device cpu --batch-size 512 --max-steps 15 {METRICS}"
    slow = disturbed(tmp_path, 2, flags, 1, slow_down)
    assert slow.status == 0, slow.err
    assert slow.rows[-1]["slowest_rank"] == 1 and slow.rows[-1]["slowest_ratio"] >= 1.75, slow.out


@pytest.mark.parametrize("flags", ["", "--pretend-link 1"])
def test_a_stopped_rank_is_named(tmp_path, flags):
    result = disturbed(tmp_path, 4, f"{LONG} --timeout 2 {METRICS} {flags}", 10,
                       lambda _, ranks: os.kill(ranks[-1], signal.SIGSTOP))
    assert result.status == 86
    says(result, "hang: rank 3 is stopped (SIGSTOP)")
    # The signal comes at a random moment, so the others may be waiting in either of the step's
    # two collectives. A GPU replays a step, so there the host cannot tell which one it is.
    assert re.search(r" of (all_reduce|mean of the loss|ncclAllReduce) #|a stream with NCCL calls",
                     result.err), result.err


def test_if_mpirun_is_stopped_no_rank_is_blamed(tmp_path):
    def stop_for_a_while(launcher, _):
        os.kill(launcher, signal.SIGSTOP)
        time.sleep(5)  # longer than the limit in which something has to move
        os.kill(launcher, signal.SIGCONT)

    # With --json, the ranks print more than fits into mpirun's pipe, and wait for mpirun.
    result = disturbed(tmp_path, 2, f"{LONG} --json --max-steps 2000 --timeout 2 {METRICS}", 10,
                       stop_for_a_while)
    assert result.status == 0 and "hang:" not in result.err, result.err


def test_a_run_that_makes_progress_raises_no_alarm():
    result = runs(4, f"ddp_training {JOB} --timeout 5 --max-steps 500")
    assert "hang:" not in result.out + result.err


START_OR_END = "30 s, at the start or end of MPI or NCCL"


# A rank is stopped while MPI starts: once it has a second thread. This is the watch's, which
# starts when the rank is on the watch's board, long before MPI_Init returns. Or while MPI shuts
# down. Or a rank runs another program without the watch, which is reported when MPI has started.
@pytest.mark.parametrize("words, line, last", [
    ("""-np 3 sh -c 'test $OMPI_COMM_WORLD_RANK = 1 && (
        until set -- /proc/$$/task/*; test $# -gt 1; do :; done; kill -STOP $$) &
        exec "$0" --timeout 1' $BIN/ddp_training""", "rank 1 is stopped (SIGSTOP)", START_OR_END),
    ("-np 3 $BIN/../tests/hangs --case stopped-in-finalize --timeout 1",
     "rank 2 is stopped (SIGSTOP) outside MPI calls, last call MPI_Finalize", START_OR_END),
    ("-np 1 $BIN/ddp_training --timeout 1 : -np 1 ./other",
     "1 of the 2 ranks of this host started without the watch\n", "1 s (--timeout)")],
    ids=["start", "end", "unwatched"])
def test_what_keeps_mpi_from_starting_or_ending_is_reported(words, line, last, tmp_path):
    (tmp_path / "other.c").write_text("#include <mpi.h>\n#include <unistd.h>\n"
                                      "int main(void) { MPI_Init(0, 0); return pause(); }\n")
    assert "./other" not in words or command("mpicc -o other other.c", tmp_path).status == 0
    result = command(f"exec mpirun {words}", tmp_path)
    # mpirun itself may fail as it ends: it deadlocks until the watch kills it, or it crashes
    # (tools/watch/launcher.hpp). A shell adds 128 to a signal's number, Python negates it.
    assert (result.status in (86, 137, -9)
            or result.status in (139, -11) and "PMIx_server_finalize" in result.err), result.err
    says(result, f"hang: {line}", f"hang: nothing has moved on this host for {last}\n")


@pytest.mark.skipif(SANITIZED, reason="sanitizers need more addresses than the limit leaves")
def test_a_rank_without_memory_ends_the_job_and_says_so():
    """Whichever allocation fails first (MPI's, a thread's, oneDNN's or ours). The limit is on
    addresses, of which CUDA needs more than any machine has memory."""
    results = [command(f"""exec mpirun -np 2 sh -c 'test $OMPI_COMM_WORLD_RANK = 0 ||
                       ulimit -v {mib << 10}; exec $BIN/{program} --timeout 0'""", **HIDE_GPUS)
               for program in ("ddp_training --max-steps 2",
                               "all_reduce_perf --max-bytes 65536 --iterations 2")
               for mib in range(40, 340, 20)]  # the smallest do not hold all libraries
    failed = [result for result in results if result.status != 0]
    for result in failed:
        # The sentence is ours, the dynamic loader's, or that of a library that checks.
        assert re.search(r"\] fatal: out of memory: |failed to map segment from shared object"
                         "|Cannot allocate memory", result.out + result.err), result
        assert result.status != 124 and "exited on signal" not in result.err, result.err
    assert any("[rank 1] fatal: out of memory: " in result.err for result in failed)
    assert len(failed) < len(results)


def together(folder, first, second):
    """Two ranks that run `first` and one that runs `second`."""
    return command(f"exec mpirun -np 2 {first} : -np 1 {second}", folder, **NO_GRACE)


def check_different(folder, first, second, error):
    result = together(folder, first, second)
    assert result.status == 2 and not result.out, result
    assert result.err.startswith("error: " + error), result.err


@pytest.mark.parametrize("flags, error", [
    ("--lr 0.5", "--lr: 0.001 on rank 0, but 0.5 on rank 2"),
    ("--checkpoint x", "--checkpoint: nothing on rank 0, but x on rank 2"),
    ("--no-shuffle", "--shuffle: yes on rank 0, but no on rank 2")])
def test_different_flags_are_named(tmp_path, flags, error):
    check_different(tmp_path, "$BIN/ddp_training", f"$BIN/ddp_training {flags}", error)


def test_a_different_build_is_named(tmp_path):
    """One more byte, which does not change how the program runs, imitates an older build."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").symlink_to(BUILD / "lib")  # a program finds the watch from its own path
    old = shutil.copy(BUILD / "bin/ddp_training", tmp_path / "bin")
    with open(old, "ab") as file:
        file.write(b"\n")
    check_different(tmp_path, "$BIN/ddp_training", old, "the program's file: ")


def test_different_data_are_named(tmp_path):
    def on(name, last_pixel, flags=""):
        (tmp_path / name).mkdir(exist_ok=True)
        images = struct.pack(">4I", 0x803, 20, 2, 2) + bytes([5] * 79 + [last_pixel])
        (tmp_path / name / "x-images-idx3-ubyte").write_bytes(images)
        labels = struct.pack(">2I", 0x801, 20) + bytes(i % 3 for i in range(20))
        (tmp_path / name / "x-labels-idx1-ubyte").write_bytes(labels)
        return (f"$BIN/ddp_training --dataset idx --data {name} --batch-size 2 --max-steps 2 "
                f"--test-fraction {flags or 0}")

    one, two = on("one", 5), on("two", 6)
    check_different(tmp_path, one, two, "training data: idx, 20 samples")
    check_different(tmp_path, on("one", 5, 0.25), on("two", 6, 0.25), "test data: idx, 5 samples")
    same = together(tmp_path, one, on("same", 5))
    assert same.status == 0, same.err
