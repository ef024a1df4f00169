"""The watch's report names what each rank of a job that hangs waits for, and nothing is reported
about a job that is only slow. --trace FILE writes a trace of every run, whether it succeeds or
hangs. The cases are in tests/programs/hangs.cpp."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

from disturbed import children
from programs import BUILD, MPI_ENVIRONMENT, NO_GRACE, command, hang, runs

# case and flags, ranks, the report: each line after "hang: ", without seconds. "...": other lines.
HANGS = [
    # Cycles, and who waits for them
    ("blocking-ring", 4,
     ["rank 0 in MPI_Send to 1 (1 MiB, tag 0); rank 1 in MPI_Send to 2 (1 MiB, tag 0); "
      "rank 2 in MPI_Send to 3 (1 MiB, tag 0); rank 3 in MPI_Send to 0 (1 MiB, tag 0): "
      "cycle 0 -> 1 -> 2 -> 3 -> 0"]),
    ("shared-memory", 4,
     ["rank 0 in MPI_Barrier #1; rank 1 in a flag in shared memory, waiting for rank 0: "
      "cycle 0 -> 1 -> 0",
      "ranks 0, 2, 3 are in MPI_Barrier #1; rank 1 never entered it"]),
    # A chain of waits, in which two ranks have exchanged messages
    ("chain", 4,
     ["rank 0 in MPI_Recv from 3 (16 B, tag 0)",
      "rank 1 has made no MPI call for some time, last call MPI_Sendrecv to 0 and from 0",
      "rank 2 in MPI_Recv from 0 (16 B, tag 0)",
      "rank 3 has made no MPI call for some time, and none before"]),
    # Messages that do not match
    ("wrong-tag", 4,
     ["rank 0 in MPI_Barrier #1; rank 1 in MPI_Recv from 0 (16 B, tag 7): cycle 0 -> 1 -> 0",
      "ranks 0, 2, 3 are in MPI_Barrier #1; rank 1 never entered it",
      "rank 1 waits for tag 7 from rank 0; rank 0 has sent tag 8"]),
    ("other-communicator", 4,
     ["rank 1 waits for tag 0 from rank 3; rank 3 has sent tag 0 on a different communicator",
      "..."]),
    ("between-groups", 4,
     ["rank 0 in MPI_Recv from 3 (16 B, tag 0); rank 3 in MPI_Barrier #2: cycle 0 -> 3 -> 0", "..."]),
    ("other-duplicate", 4,
     ["rank 1 waits for tag 0 from rank 3; rank 3 has sent tag 0 on a different communicator",
      "..."]),
    # Collectives
    ("skipped-collective", 4,
     ["rank 2 in MPI_Recv from 3 (16 B, tag 0); rank 3 in MPI_Allreduce #7 (4 B): "
      "cycle 2 -> 3 -> 2",
      "ranks 0, 1, 3 are in MPI_Allreduce #7 (4 B); rank 2 never entered it, last seen in #6 "
      "(MPI_Barrier)"]),
    ("other-collective", 4,
     ["ranks 0, 1, 3 are in MPI_Allreduce #1 (4 B); rank 2 is in MPI_Bcast #1 (4 B, root 0)"]),
    ("other-root", 2, ["rank 0 is in MPI_Gather #1 (4 B, root 0); rank 1 is in MPI_Gather #1 (4 B, root 1)"]),
    ("skipped-broadcast", 4,
     ["rank 0 in MPI_Send to 2 (4 MiB, tag 0); rank 2 in MPI_Barrier #1: cycle 0 -> 2 -> 0",
      "ranks 1, 2, 3 are in MPI_Barrier #1; rank 0 never entered it"]),
    ("skipped-shared-memory", 4,
     ["rank 2 is in MPI_Barrier #5; ranks 0, 1, 3 never entered it, last seen in #4 (MPI_Bcast)",
      "..."]),
    # Ranks that are not in MPI
    ("from-finished", 2,
     ["rank 0 in MPI_Recv from 1 (16 B, tag 0)", "rank 1 has already finished (MPI_Finalize)"]),
    ("stopped", 4,
     ["ranks 0, 1, 3 are in MPI_Allreduce #1 (4 B); rank 2 never entered it",
      "rank 2 is stopped (SIGSTOP) outside MPI calls, and none before"]),
    ("first-stopped", 4,
     ["ranks 1, 2, 3 are in MPI_Allreduce #1 (4 B); rank 0 never entered it",
      "rank 0 is stopped (SIGSTOP) outside MPI calls, and none before"]),
    # What requests are for
    ("requests", 4,
     ["rank 0 in MPI_Waitall for MPI_Irecv from 1 (16 B, tag 5) and MPI_Irecv from 2 (32 B, "
      "tag 6); rank 1 in MPI_Barrier #1: cycle 0 -> 1 -> 0",
      "ranks 1, 2, 3 are in MPI_Barrier #1; rank 0 never entered it"]),
    ("after-a-part", 4,
     ["ranks 0, 1, 3 are in MPI_Barrier #1; rank 2 never entered it", "..."]),
    ("found", 4,
     ["ranks 1, 2, 3 are in MPI_Barrier #1; rank 0 never entered it",
      "rank 0 has made no MPI call for some time, last call MPI_Iprobe from 1"]),
    ("started", 4,
     ["ranks 0, 1, 3 are in MPI_Wait for MPI_Iallreduce #1 (4 B)",
      "rank 2 has made no MPI call for some time, last call MPI_Iallreduce #1"]),
    # Our own operations, which are named and numbered like MPI's
    ("named --strict", 4,
     ["ranks 1, 3 are in all_reduce #7 (bucket 2: 2.weight, 2.bias); rank 2 never entered it, "
      "last seen in #6",
      "rank 0 has already finished (MPI_Finalize)",
      "rank 1 in MPI_Sendrecv to 2 and from 0 (16 B, tag 0) of all_reduce #7 (bucket 2: "
      "2.weight, 2.bias)",
      "rank 2 has made no MPI call for some time, last call MPI_Sendrecv to 3 and from 1",
      "rank 3 in MPI_Sendrecv to 0 and from 2 (16 B, tag 0) of all_reduce #7 (bucket 2: "
      "2.weight, 2.bias)"]),
    ("named-patiently --strict", 4,
     ["ranks 1, 3 are in all_reduce #7 (bucket 2: 2.weight, 2.bias); rank 2 never entered it, "
      "last seen in #6",
      "rank 3 in MPI_Sendrecv to 0 and from 2 (16 B, tag 0) of all_reduce #7 (bucket 2: 2.weight, "
      "2.bias)",
      "..."]),
]
SLOW = "before that, the others waited for rank "


def report_of(result):
    lines = [line[len("hang: "):] for line in result.err.splitlines() if line.startswith("hang: ")]
    return [re.sub(r"for [0-9.]+ s,", "for some time,", line) for line in lines]


def slices(trace, name):
    return [event for event in trace["traceEvents"] if (event["ph"], event["name"]) == ("X", name)]


def checked(path, ranks):
    """Reads a trace, and checks what must hold for every trace."""
    trace = json.loads(path.read_text())
    events = trace["traceEvents"]
    rows = {(event["pid"], event["tid"]) for event in events
            if event["ph"] == "M" and event["name"] == "thread_name"}
    whole = [event for event in events if event["ph"] == "X"]
    departures = {event["id"]: event for event in events if event["ph"] == "s"}
    arrivals = [event for event in events if event["ph"] == "f"]
    assert {event["pid"] for event in events} == set(range(ranks))
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in whole)
    assert {(event["pid"], event["tid"]) for event in whole} <= rows
    assert len(arrivals) == len(departures) == sum(event["ph"] == "s" for event in events)
    for arrival in arrivals:
        departure = departures[arrival["id"]]
        assert departure["ts"] <= arrival["ts"]
        for end in (departure, arrival):  # each end of an arrow lies within a slice of its row
            assert any(each["ts"] <= end["ts"] <= each["ts"] + each["dur"] + 1e-3 for each in whole
                       if (each["pid"], each["tid"]) == (end["pid"], end["tid"])), end
    return trace


# The call that hangs, and how often the trace has it.
CALLS = {"wrong-tag": ("MPI_Recv", 1), "stopped": ("MPI_Allreduce", 3),
         "first-stopped": ("MPI_Allreduce", 3),  # rank 0 cannot write the trace
         "named --strict": ("all_reduce", 4 * 6 + 1)}  # rank 0 finishes its seventh


@pytest.mark.parametrize("case, ranks, report", HANGS, ids=[case for case, _, _ in HANGS])
def test_the_report_and_the_trace_of(case, ranks, report, tmp_path):
    # A stopped rank must not outlive the job: mpirun would wait for it, past the limit of `hang`.
    path = tmp_path / "t.json"
    *said, _, last = report_of(hang(ranks, f"../tests/hangs --case {case} --trace {path}", timeout=1))
    assert last == f"the trace is in {path}"
    # On a busy machine, any rank may have been slow.
    said = [line for line in said if not line.startswith(SLOW)]
    if report[-1] == "...":
        assert [line for line in report[:-1] if line not in said] == [], said
    else:
        assert said == report
    trace = checked(path, ranks)
    if case in CALLS:
        call, times = CALLS[case]
        found = slices(trace, call)
        assert len(found) == times
        if call == "all_reduce":
            assert {event["args"]["tensor"] for event in found} == {"bucket 2: 2.weight, 2.bias"}


@pytest.mark.parametrize("case, ranks, slow", [
    ("slow-rank", 4, ["3"]), ("slow-rank-in-step", 2, ["1"]), ("equal-work", 4, [])])
def test_only_a_rank_that_works_longer_than_the_others_is_named(case, ranks, slow):
    said = report_of(hang(ranks, f"../tests/slow_ranks --case {case}", timeout=5))
    named = [line.removeprefix(SLOW) for line in said if line.startswith(SLOW)]
    assert [line.split(",")[0] for line in named] == slow, said


def test_a_rank_that_never_starts_mpi_is_reported_by_the_others():
    # MPI is given 30 s to start, even if the time-out is shorter.
    result = command("exec mpirun -np 2 sh -c 'test $OMPI_COMM_WORLD_RANK = 0 || exec sleep 100; "
                     "exec $BIN/send_recv --timeout 1'", **NO_GRACE)
    assert result.status == 86, result.err
    assert report_of(result)[:2] == ["rank 0 in MPI_Init",
                                     "1 of the 2 ranks of this host never reached MPI_Init"]


@pytest.mark.parametrize("flags", [
    "slow --timeout 1.5", "slow-waits --timeout 1.5", "slow-disk --timeout 1.5", "slow --timeout 0"])
def test_a_slow_run_is_not_a_hang(flags):
    assert "hang:" not in runs(3, f"../tests/slow_ranks --case {flags}").err


def test_ranks_that_were_stopped_together_are_not_hanging():
    """As after Ctrl-Z, or on a laptop that slept, for longer than the time-out."""
    job = subprocess.Popen(["mpirun", "-np", "2", BUILD / "tests/slow_ranks", "--case", "waiting",
                            "--timeout", "5"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, env={**MPI_ENVIRONMENT, **os.environ})
    assert job.stdout.readline() == "waiting\n"
    ranks = children(job.pid)
    for sent, then in ((0, 0.5), (signal.SIGSTOP, 7), (signal.SIGCONT, 0)):  # first it stands still
        for rank in ranks:
            os.kill(rank, sent)
        time.sleep(then)
    _, said = job.communicate()
    assert job.returncode == 0 and "hang:" not in said, said


@pytest.mark.parametrize("flags, seconds", [("", "60"), ("--timeout 2.5", "2.5"), ("--timeout 0", "0")])
def test_the_time_out_is_what_the_flag_says(flags, seconds):
    assert runs(2, f"../tests/slow_ranks --case timeout {flags}").out == f"{seconds}\n"


def test_a_rank_that_sees_only_its_own_board_does_not_take_all_ranks_for_there():
    """As where srun starts the ranks, and no variable says how many are on a host."""
    result = command("exec mpirun -np 4 env -u OMPI_COMM_WORLD_LOCAL_SIZE -u OMPI_COMM_WORLD_LOCAL_RANK "
                     "$BIN/../tests/hangs --case other-collective --timeout 1", **NO_GRACE)
    assert result.status == 86, result.err
    assert "hang: nothing has moved on this host for 1 s (--timeout)\n" in result.err


@pytest.mark.parametrize("ranks", [1, 3])
def test_ranks_that_all_compute_are_not_hanging(ranks):
    said = runs(ranks, "../tests/slow_ranks --case computing --timeout 1").err
    assert "hang:" not in said
    lines = [line for line in said.splitlines() if line.startswith("computing: ")]
    assert 2 <= len(lines) <= 3 and len(set(lines)) == 1
    assert lines[0] == ("computing: no rank of this host has called MPI for 1 s, and none waits "
                        "(--timeout)")


@pytest.mark.parametrize("seconds, status", [(3, 0), (60, 86)])
def test_a_collective_that_all_ranks_have_entered_may_take_ten_times_as_long(seconds, status,
                                                                             tmp_path):
    (tmp_path / "slow.c").write_text(f"""
        #include <mpi.h>
        #include <unistd.h>
        int PMPI_Barrier(MPI_Comm comm) {{  // instead of MPI's; the first one takes long
          static int calls;
          if (calls++ == 0) sleep({seconds});
          return MPI_SUCCESS;
        }}""")
    built = command("mpicc -shared -fPIC -o slow.so slow.c", tmp_path)
    assert built.status == 0, built.err
    result = command("exec mpirun -np 3 -x LD_PRELOAD=./slow.so $BIN/../tests/slow_ranks "
                     "--case slow --timeout 1", tmp_path, **NO_GRACE)
    assert result.status == status, result.err
    assert ("hang: ranks 0, 1, 2 are in MPI_Barrier #1\n" in result.err) == (status == 86)
    assert ("hang: nothing has moved on this host for 10 s, although all ranks are there\n"
            in result.err) == (status == 86)


@pytest.mark.parametrize("strict", ["", " --strict"])
@pytest.mark.parametrize("program", ["send_recv", "broadcast", "all_reduce --algorithm ring",
                                     "distributed_sampler", "ddp_training --max-steps 3"])
def test_every_program_writes_a_trace(program, strict, tmp_path):
    runs(3, f"{program} --trace t.json{strict}", tmp_path)
    trace = checked(tmp_path / "t.json", 3)
    assert len(slices(trace, "MPI_Finalize")) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_each_message_has_its_size_its_peer_and_an_arrow(tmp_path):
    runs(4, "send_recv --trace t.json", tmp_path)
    trace = checked(tmp_path / "t.json", 4)
    # One message from rank 0 to rank 1, then four around the ring.
    sends = slices(trace, "MPI_Send")
    assert sorted(event["pid"] for event in sends) == [0, 0, 1, 2, 3]
    for event in sends:
        said = {key: event["args"][key] for key in ("bytes", "to", "tag")}
        assert said == {"bytes": 16, "to": (event["pid"] + 1) % 4, "tag": 0}
    assert len(slices(trace, "MPI_Recv")) == 5
    assert sum((event["ph"], event["name"]) == ("s", "message")
               for event in trace["traceEvents"]) == 5


def test_each_collective_has_its_bytes_and_its_root(tmp_path):
    runs(3, "../tests/hangs --case every-collective --trace t.json", tmp_path)
    trace = checked(tmp_path / "t.json", 3)
    rooted = ["Bcast", "Gather", "Gatherv", "Scatter", "Scatterv"]
    others = ["Allgather", "Allgatherv", "Alltoall"]
    names = [*rooted, *others, "Reduce", "Allreduce", "Reduce_scatter_block", "Scan", "Exscan"]
    for floats, name in enumerate(names, 2):
        found = slices(trace, "MPI_" + name)
        assert sorted(event["pid"] for event in found) == [0, 1, 2], name
        for event in found:
            assert event["args"].get("bytes") == 4 * floats, event
            assert event["args"].get("root") == (1 if name in (*rooted, "Reduce") else None), event


def test_a_receive_of_any_tag_has_an_arrow(tmp_path):
    runs(2, "../tests/hangs --case any-tag --trace t.json", tmp_path)
    trace = checked(tmp_path / "t.json", 2)
    assert sum((event["ph"], event["name"]) == ("f", "message") for event in trace["traceEvents"]) == 1


def test_a_trace_is_limited_in_size_and_says_what_did_not_fit(tmp_path):
    result = runs(2, "../tests/slow_ranks --case chatter --trace t.json", tmp_path)
    assert "trace: no room for the first " in result.err
    trace = json.loads((tmp_path / "t.json").read_text())
    dropped = trace["otherData"]["droppedEvents"]
    assert set(dropped) == {"rank 0", "rank 1"}
    # An exchange is recorded as a slice and two ends of arrows. The last exchanges are kept.
    assert dropped["rank 0"] >= 3 * 60_000 - (1 << 17)
    assert len(slices(trace, "MPI_Finalize")) == 2
