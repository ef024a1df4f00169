"""What the watch writes: hang reports, and what holds for every trace."""

import json
import pathlib
import re
from typing import Any

from programs import Result

SLOW = "before that, the others waited for rank "


def report_of(result: Result) -> list[str]:
    lines = [line[len("hang: ") :] for line in result.err.splitlines() if line.startswith("hang: ")]
    return [re.sub(r"for [0-9.]+ s,", "for some time,", line) for line in lines]


def slices(trace: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if (event["ph"], event["name"]) == ("X", name)]


def checked(path: pathlib.Path, ranks: int) -> dict[str, Any]:
    """Reads a trace, and checks what must hold for every trace."""
    trace = json.loads(path.read_text())
    events = trace["traceEvents"]
    rows = {(event["pid"], event["tid"]) for event in events if event["ph"] == "M" and event["name"] == "thread_name"}
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
            assert any(
                each["ts"] <= end["ts"] <= each["ts"] + each["dur"] + 1e-3
                for each in whole
                if (each["pid"], each["tid"]) == (end["pid"], end["tid"])
            ), end
    return trace
