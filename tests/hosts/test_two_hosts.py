"""The programs on two hosts: results, bytes on the cable, costs, traces, reports and a dropped link."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest
from hosts import on_hosts
from programs import HIDE_GPUS, Result, command, says

OnTwoHosts = Callable[..., Result]


@pytest.fixture
def on_two_hosts(tmp_path: pathlib.Path) -> OnTwoHosts:
    """Like on_hosts, in a folder of the test's own."""

    def run(ranks_per_host: int, program: str, options: str = "", status: int | None = 0) -> Result:
        return on_hosts(ranks_per_host, program, options, tmp_path, status)

    return run


def events_of(path: pathlib.Path, **wanted: object) -> list[dict[str, Any]]:
    """The events of a trace that have these values."""
    return [
        event
        for event in json.loads(path.read_text())["traceEvents"]
        if all(event.get(key) == value for key, value in wanted.items())
    ]


def hosts_in(path: pathlib.Path) -> dict[int, str]:
    """Each rank's host, from the names of a trace's processes, such as "rank 0 on host-a"."""
    return {event["pid"]: event["args"]["name"].split()[-1] for event in events_of(path, name="process_name")}


@pytest.mark.parametrize(
    "ranks_per_host, program",
    [
        (2, "send_recv"),
        (1, "send_recv_perf --act exchange"),
        (2, "broadcast_perf --max-bytes 262144"),
        (1, "all_reduce_perf --max-bytes 262144 --iterations 2"),  # flat: each host has one rank
        (2, "all_reduce_perf --max-bytes 65536 --iterations 2 --op max --strict"),
        (2, "distributed_sampler"),
        (1, "ddp_training --epochs 1"),
        (2, "ddp_training --epochs 1 --backend mpi"),
        (2, "ddp_training --epochs 1 --overlap --algorithm hierarchical"),
    ],
)
def test_results_are_correct(ranks_per_host: int, program: str, on_two_hosts: OnTwoHosts) -> None:
    assert "verified: " in on_two_hosts(ranks_per_host, program).out


@pytest.mark.parametrize("program", ["all_reduce", "all_reduce_perf", "ddp_training"])
def test_two_hosts_share_no_memory(program: str, on_two_hosts: OnTwoHosts) -> None:
    result = on_two_hosts(2, f"{program} --algorithm shared-memory", status=2)
    assert re.findall("error: (.*)", result.err) == [
        "--algorithm: shared-memory: the 4 ranks are on several hosts, which share no memory"
    ]
    assert not result.out


@pytest.mark.parametrize(
    "algorithm, least, most", [("hierarchical", 0.99, 1.1), ("ring", 1.49, 1.65)]
)  # with mpirun's messages and TCP's headers
def test_each_byte_passes_the_cable(algorithm: str, least: float, most: float, on_two_hosts: OnTwoHosts) -> None:
    """In each direction once with the hierarchical all-reduce: what ten more of them add."""

    def carried(iterations: int) -> int:
        out = on_two_hosts(
            2,
            f"all_reduce_perf --min-bytes 1048576 --max-bytes 1048576 --iterations {iterations} "
            f"--algorithm {algorithm}",
            "--count-bytes",
        ).out
        return int(re.findall(r"two_hosts: the cable carried (\d+) bytes", out)[0])

    assert least < (carried(11) - carried(1)) / (10 * 2**20) < most


@pytest.mark.parametrize(
    "ranks_per_host, flags, is_hierarchical", [(2, "", True), (2, "--no-registered", True), (1, "", False)]
)
def test_auto_is_hierarchical_if_hosts_have_several_ranks(
    ranks_per_host: int, flags: str, is_hierarchical: bool, on_two_hosts: OnTwoHosts
) -> None:
    rows = on_two_hosts(
        ranks_per_host, f"all_reduce_perf --json --min-bytes 1048576 --max-bytes 16777216 --iterations 2 {flags}"
    ).rows
    chosen = {row["chosen"] for row in rows if row["algorithm"] == "auto"}
    assert all(row["wrong"] == 0 for row in rows)
    assert chosen and (chosen == {"hierarchical"}) == ("hierarchical" in chosen) == is_hierarchical


def test_the_eager_limit_is_that_of_the_link(on_two_hosts: OnTwoHosts) -> None:
    within, between = on_two_hosts(2, "send_recv_perf --act eager --json").rows
    assert (within["same_host"], between["same_host"]) == (True, False)
    # In Open MPI 4.1 and 5, btl_tcp_eager_limit is 64 KiB, some of which the envelope takes up.
    assert within["eager_limit_bytes"] < between["eager_limit_bytes"]
    assert 60_000 < between["eager_limit_bytes"] <= 65_536


def test_the_cost_of_a_message_between_hosts_is_kept_for_two_hosts(
    on_two_hosts: OnTwoHosts, tmp_path: pathlib.Path
) -> None:
    sizes = "--min-bytes 4 --max-bytes 64"  # few, as each takes seconds
    says(on_two_hosts(2, f"send_recv_perf {sizes}"), "not saved, because ranks 0 and 1 share a host")
    assert not (tmp_path / ".learn").exists()
    says(on_two_hosts(1, f"send_recv_perf {sizes}"), "saved in .learn/alpha-beta.json")
    tree = f"broadcast_perf --algorithm tree --json {sizes}"
    assert all(row["predicted_us"] > 0 for row in on_two_hosts(1, tree).rows)
    one_host = command(f"mpirun -np 2 $BIN/{tree}", tmp_path, **HIDE_GPUS)
    assert one_host.rows and all(row["predicted_us"] is None for row in one_host.rows)


def test_a_trace_has_the_ranks_of_both_hosts_on_one_clock(on_two_hosts: OnTwoHosts, tmp_path: pathlib.Path) -> None:
    on_two_hosts(2, "all_reduce_perf --algorithm ring --max-bytes 1024 --iterations 5 --trace t.json")
    path = tmp_path / "t.json"
    assert hosts_in(path) == {0: "host-a", 1: "host-a", 2: "host-b", 3: "host-b"}
    # The two hosts share a clock, so any offset that is found is an error. The error is at most
    # half a round trip, which takes milliseconds on a busy machine.
    offsets = json.loads(path.read_text())["otherData"]["clockOffsetsNs"]
    assert offsets["rank 0"] == offsets["rank 1"] == 0
    assert offsets["rank 2"] == offsets["rank 3"]
    assert abs(offsets["rank 2"]) < 2e7
    # Every message arrives after it was sent, even between hosts.
    departures = {event["id"]: event for event in events_of(path, ph="s")}
    between = 0
    for arrival in events_of(path, ph="f"):
        departure = departures[arrival["id"]]
        other_host = (departure["pid"] < 2) != (arrival["pid"] < 2)
        slack_us = abs(offsets["rank 2"]) / 1e3 if other_host else 0
        assert departure["ts"] <= arrival["ts"] + slack_us
        between += other_host
    assert between > 0


def test_each_host_reports_a_hang_of_its_own_ranks(on_two_hosts: OnTwoHosts, tmp_path: pathlib.Path) -> None:
    result = on_two_hosts(2, "../tests/hangs --timeout 1 --case skipped-collective --trace t.json", status=86)
    says(
        result,
        "hang: ranks 0, 1 are in MPI_Allreduce #7 (4 B)\n",
        "hang: rank 3 is in MPI_Allreduce #7 (4 B); rank 2 never entered it, last seen in #6 (MPI_Barrier)\n",
        "hang: the other hosts report about their own ranks\n",
    )
    assert hosts_in(tmp_path / "t.json") == {0: "host-a", 1: "host-a"}
    assert hosts_in(tmp_path / "t.json.rank2") == {2: "host-b", 3: "host-b"}


@pytest.mark.parametrize("ranks_per_host", [1, 2])
def test_fault_19_a_dropped_link_is_diagnosed_and_the_checkpoint_intact(
    ranks_per_host: int, on_two_hosts: OnTwoHosts, tmp_path: pathlib.Path
) -> None:
    file = "model.safetensors"
    result = on_two_hosts(
        ranks_per_host,
        f"ddp_training --epochs 100000 --timeout 8 --checkpoint-every 5 --checkpoint {file}",
        f"--drop-when {file}",
        None,
    )
    says(
        result,
        "two_hosts: the cable is unplugged",
        "hang: rank 0 ",
        "hang: nothing has moved on this host for 8 s (--timeout)\n",
    )
    # The cable may go while a bucket travels, or between two steps, while the loss does.
    assert re.search(r"of all_reduce #\d+ \(bucket |of mean of the loss #", result.err), result.err
    # Until it is killed, mpirun waits for an answer from the other host, so its exit status does
    # not show how the run ended.
    assert result.status not in (0, 124)
    # The file is intact: a run of one process accepts it and its checksum.
    resumed = command(
        f"mpirun -np 1 $BIN/ddp_training --resume --checkpoint {file} --max-steps 1", tmp_path, **HIDE_GPUS
    )
    assert resumed.status == 0, resumed.err


BUCKETS = [
    "bucket 0: 8.bias, 8.weight, 6.bias, 6.weight",
    "bucket 1: 4.bias, 4.weight",
    "bucket 2: 2.bias, 2.weight",
    "bucket 3: 0.bias, 0.weight",
]
STEPS = 8


def test_overlap_sends_gradients_earlier_but_does_not_change_them(
    on_two_hosts: OnTwoHosts, tmp_path: pathlib.Path
) -> None:
    # The first layer is small, so little is left to send when backward ends. The batches are large,
    # so backward takes a long time.
    deep = (
        "--layers 32,512,512,512,512,10 --dataset synthetic --samples 4096 --batch-size 2048 "
        f"--max-steps {STEPS} --json"
    )
    overlapped, blocking = (
        on_two_hosts(1, f"ddp_training {deep} {flag} --trace {flag[2:]}.json", "--rate 1gbit").rows[-1]
        for flag in ("--overlap", "--no-overlap")
    )
    assert overlapped["parameters"] == blocking["parameters"]
    assert overlapped["hidden"] > 0 and blocking["hidden"] == 0
    assert blocking["hideable_comm_ms"] > 0
    for rank in (0, 1):
        for name in ("overlap", "no-overlap"):
            check_order(tmp_path / f"{name}.json", rank, overlap=name == "overlap")


def check_order(path: pathlib.Path, rank: int, overlap: bool) -> None:
    """The all-reduces of a step run in order, begin after its backward has begun, and end before
    the wait for them ends."""

    def slices(name: str) -> list[dict[str, Any]]:
        return events_of(path, ph="X", pid=rank, name=name)

    def end(event: dict[str, Any]) -> float:
        return event["ts"] + event["dur"]

    backward, waits, reduces = map(slices, ("backward", "wait for all-reduces", "all_reduce"))
    assert [event["args"]["tensor"] for event in reduces] == BUCKETS * STEPS
    assert [event["args"]["number"] for event in reduces] == list(range(1, len(reduces) + 1))
    assert len(backward) == len(waits) == STEPS
    assert all(end(one) <= other["ts"] for one, other in zip(reduces, reduces[1:]))
    for i, event in enumerate(reduces):
        step = i // len(BUCKETS)
        assert event["ts"] >= backward[step]["ts"] and end(event) <= end(waits[step])
        # Without overlap, backward itself waits, and the all-reduces are on its row of the trace.
        assert (event["tid"] != backward[step]["tid"]) == overlap
    inside = [end(event) <= end(backward[i // len(BUCKETS)]) for i, event in enumerate(reduces)]
    # The last bucket is not full until backward ends. By then, some of the others have been sent.
    assert any(inside) if overlap else all(inside)
