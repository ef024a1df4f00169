"""--trace FILE writes a trace of every run, whether it succeeds or hangs."""
import json

import pytest

from programs import hang, runs


def slices(trace, name, rank=None):
    return [event for event in trace["traceEvents"] if event["ph"] == "X"
            and event["name"] == name and rank in (None, event["pid"])]


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


@pytest.mark.parametrize("case, call, times", [
    ("wrong-tag", "MPI_Recv", 1),
    ("stopped", "MPI_Allreduce", 3),
    ("first-stopped", "MPI_Allreduce", 3),  # rank 0 cannot write the trace
    ("named --strict", "all_reduce", 4 * 6 + 1)])  # rank 0 finishes its seventh
def test_the_trace_of_a_hang_has_the_call_that_hangs(case, call, times, tmp_path):
    path = tmp_path / "t.json"
    hang(4, f"../tests/hangs --case {case} --trace {path}", f"the trace is in {path}", timeout=1)
    found = slices(checked(path, 4), call)
    assert len(found) == times
    if call == "all_reduce":
        assert {event["args"]["tensor"] for event in found} == {"bucket 2: 2.weight, 2.bias"}


def test_a_trace_is_limited_in_size_and_says_what_did_not_fit(tmp_path):
    result = runs(2, "../tests/hangs --case chatter --trace t.json", tmp_path)
    assert "trace: no room for the first " in result.err
    trace = json.loads((tmp_path / "t.json").read_text())
    dropped = trace["otherData"]["droppedEvents"]
    assert set(dropped) == {"rank 0", "rank 1"}
    # An exchange is recorded as a slice and two ends of arrows. The last exchanges are kept.
    assert dropped["rank 0"] >= 3 * 60_000 - (1 << 17)
    assert len(slices(trace, "MPI_Finalize")) == 2
