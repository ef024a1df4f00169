"""--trace FILE: every program writes one, with each message, collective, byte and arrow."""

import json
import pathlib
import re

import pytest
from programs import ROOT, runs
from watch_output import checked, slices


@pytest.mark.parametrize("strict", ["", " --strict"])
@pytest.mark.parametrize(
    "program",
    ["send_recv", "broadcast", "all_reduce --algorithm ring", "distributed_sampler", "ddp_training --max-steps 3"],
)
def test_every_program_writes_a_trace(program: str, strict: str, tmp_path: pathlib.Path) -> None:
    runs(3, f"{program} --trace t.json{strict}", tmp_path)
    trace = checked(tmp_path / "t.json", 3)
    assert len(slices(trace, "MPI_Finalize")) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_each_message_has_its_size_its_peer_and_an_arrow(tmp_path: pathlib.Path) -> None:
    runs(4, "send_recv --trace t.json", tmp_path)
    trace = checked(tmp_path / "t.json", 4)
    # One message from rank 0 to rank 1, then four around the ring.
    sends = slices(trace, "MPI_Send")
    assert sorted(event["pid"] for event in sends) == [0, 0, 1, 2, 3]
    for event in sends:
        said = {key: event["args"][key] for key in ("bytes", "to", "tag")}
        assert said == {"bytes": 16, "to": (event["pid"] + 1) % 4, "tag": 0}
    assert len(slices(trace, "MPI_Recv")) == 5
    assert sum((event["ph"], event["name"]) == ("s", "message") for event in trace["traceEvents"]) == 5


# How many floats are one rank's share in hangs.cpp, every_collective. The watch knows none of the last two.
FLOATS = {
    name: floats
    for floats, name in enumerate(
        "Bcast Gather Gatherv Scatter Scatterv Allgather Allgatherv Alltoall Reduce Allreduce Reduce_scatter_block "
        "Scan Exscan".split(),
        2,
    )
} | {"Barrier": 0, "Reduce_scatter": 0}
ROOTED = {"Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Reduce"}


def test_each_collective_has_its_bytes_and_its_root(tmp_path: pathlib.Path) -> None:
    runs(3, "../tests/hangs --case every-collective --trace t.json", tmp_path)
    trace = checked(tmp_path / "t.json", 3)
    wrapped = re.findall(r"^int MPI_(\w+)\(", (ROOT / "tools/watch/observe/wrap_collectives.cpp").read_text(), re.M)
    blocking = {name if name in FLOATS else name[1:].capitalize() for name in wrapped}
    assert blocking == set(FLOATS) and len(wrapped) == 24
    for name in wrapped:
        like = name if name in FLOATS else name[1:].capitalize()
        found = slices(trace, "MPI_" + name)
        assert sorted(event["pid"] for event in found) == [0, 1, 2], name
        for event in found:
            assert event["args"].get("bytes", 0) == 4 * FLOATS[like], event
            assert event["args"].get("root") == (1 if like in ROOTED else None), event


def test_a_receive_of_any_tag_has_an_arrow(tmp_path: pathlib.Path) -> None:
    runs(2, "../tests/hangs --case any-tag --trace t.json", tmp_path)
    trace = checked(tmp_path / "t.json", 2)
    assert sum((event["ph"], event["name"]) == ("f", "message") for event in trace["traceEvents"]) == 1


def test_a_trace_is_limited_in_size_and_says_what_did_not_fit(tmp_path: pathlib.Path) -> None:
    result = runs(2, "../tests/slow_ranks --case chatter --trace t.json", tmp_path)
    assert "trace: no room for the first " in result.err
    trace = json.loads((tmp_path / "t.json").read_text())
    dropped = trace["otherData"]["droppedEvents"]
    assert set(dropped) == {"rank 0", "rank 1"}
    # An exchange is recorded as a slice and two ends of arrows. The last exchanges are kept.
    assert dropped["rank 0"] >= 3 * 60_000 - (1 << 17)
    assert len(slices(trace, "MPI_Finalize")) == 2
