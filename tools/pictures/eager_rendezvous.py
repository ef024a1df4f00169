"""An eager and a rendezvous send, one byte apart: is each complete before its receive is called?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import svg

if TYPE_CHECKING:
    from draw import Programs

COMMAND = "mpirun -np 2 build/bin/send_recv_perf --act eager --trace eager.json"
TRIAL = 1  # the tag of the messages that are tried (01_send_recv/perf/eager_limit.hpp)
LEFT, RIGHT, TOP, PANEL, ROW, BAR = 130, 816, 84, 138, 42, 28


def record(programs: Programs) -> dict[str, Any]:
    """For the largest eager message and one that is a byte longer: when each call began and ended,
    in microseconds since the send began. `test` is present if MPI_Test found the send complete."""
    calls: dict[str, list[dict[str, Any]]] = {"MPI_Isend": [], "MPI_Recv": [], "MPI_Wait": [], "MPI_Test": []}
    for event in programs.trace(COMMAND):
        if event["name"] in calls and event["args"].get("tag", TRIAL) == TRIAL:
            calls[event["name"]].append(event)
    trials = {}
    for send, wait, receive in zip(calls["MPI_Isend"], calls["MPI_Wait"], calls["MPI_Recv"]):
        named = {"send": send, "wait": wait, "receive": receive}
        named.update(("test", test) for test in calls["MPI_Test"] if send["ts"] < test["ts"] < wait["ts"])
        trials[send["args"]["bytes"]] = {
            name: [round(time - send["ts"], 2) for time in (event["ts"], event["ts"] + event["dur"])]
            for name, event in named.items()
        }
    limit = max(size for size, trial in trials.items() if "test" in trial)
    return {"eager": {"bytes": limit, **trials[limit]}, "rendezvous": {"bytes": limit + 1, **trials[limit + 1]}}


def complete(trial: dict[str, Any]) -> float:
    """When the sender learned that its send was complete."""
    return trial.get("test", trial["wait"])[1]


def draw_trial(trial: dict[str, Any], name: str, words: str, top: float, x: Callable[[float], float]) -> list[str]:
    end, (came, left) = complete(trial), trial["receive"]
    known = "MPI_Test: complete" if "test" in trial else "MPI_Wait: complete"
    y = [top + 16, top + 16 + ROW]
    parts = [svg.text(0, top, f"{trial['bytes']} bytes: {name}", font_weight="bold") + svg.text(LEFT + 75, top, words)]
    for rank, role in enumerate(["sender", "receiver"]):
        parts.append(
            svg.text(0, y[rank] + 19, f"rank {rank}, {role}", "m")
            + svg.rect(LEFT, y[rank], RIGHT - LEFT, BAR, rx=4, class_="p")
        )
    parts.append(
        svg.rect(x(0), y[0], x(end) - x(0), BAR, rx=4, fill=svg.BLUE)
        + svg.text(x(0) + 10, y[0] + 19, "MPI_Isend", None, fill="#ffffff", font_weight="bold")
        + svg.text(x(end) - 10, y[0] + 19, known, None, fill="#ffffff", font_weight="bold", text_anchor="end")
    )
    parts.append(
        svg.rect(x(came), y[1], max(5.0, x(left) - x(came)), BAR, rx=3, fill=svg.ORANGE)
        + svg.line(x(came), y[0] - 6, x(came), y[1] + BAR + 6, class_="k", stroke_dasharray="5 4", stroke_width=2)
        + svg.text(x(came) - 10, y[1] + 19, "MPI_Recv is called", "t", text_anchor="end")
    )
    return parts


def draw(run: dict[str, Any]) -> str:
    eager, rendezvous = run["eager"], run["rendezvous"]
    last = 1.04 * max(trial[name][1] for trial in (eager, rendezvous) for name in ("receive", "wait"))

    def x(time: float) -> float:
        return LEFT + (RIGHT - LEFT) * time / last

    parts = [
        svg.text(
            0, 42, "MPI_Send does what MPI_Isend and MPI_Wait do together: it returns when the send is complete.", "m"
        )
    ]
    parts += draw_trial(eager, "eager", "MPI keeps a copy. The send is complete before the receive is called.", TOP, x)
    parts += draw_trial(
        rendezvous, "rendezvous", "The send is complete only after the receive is called.", TOP + PANEL, x
    )
    bottom = TOP + 2 * PANEL
    parts.append(svg.time_axis(x, bottom - 2, last, "µs"))
    told = " ".join(
        f"{trial['bytes']} bytes: complete after {complete(trial):.0f} microseconds, received "
        f"from {trial['receive'][0]:.0f} on."
        for trial in (eager, rendezvous)
    )
    return svg.document(bottom + 10, "With one more byte, a send waits for its receive", told, run["command"], parts)
