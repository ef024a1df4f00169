"""One training step with and without overlap: what computes, what communicates, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import svg

if TYPE_CHECKING:
    from draw import Programs

COMMAND = (
    "mpirun -np 2 build/bin/ddp_training --overlap --batch-size 2048 --pretend-link 1 "
    "--max-steps 20 --trace overlap.json"
)
WAYS = {"without": "--no-overlap", "with": "--overlap"}
TURNS = 5
LEFT, RIGHT, TOP, PANEL, ROW, BAR = 110, 804, 84, 132, 40, 30
Phase = list[Any]  # its name, and when it begins and ends


def steps_of(events: list[dict[str, Any]]) -> Iterator[list[Phase]]:
    """Rank 0's phases, step by step: [name, begin, end] in milliseconds since the step began."""
    phases = [event for event in events if event.get("cat") == "phase" and event["pid"] == 0]
    starts = [event["ts"] for event in phases if event["name"] == "forward"]
    for begin, end in zip(starts, starts[1:]):

        def ms(time: float, begin: float = begin) -> float:
            return round((time - begin) / 1000, 2)

        yield [
            [event["args"].get("tensor", event["name"]).split(":")[0], ms(event["ts"]), ms(event["ts"] + event["dur"])]
            for event in phases
            if begin <= event["ts"] < end and event["name"] != "mean of the loss"
        ] + [["step", 0, ms(end)]]


def record(programs: Programs) -> dict[str, Any]:
    """The fastest step of each way, since other work on the machine only makes steps longer."""
    steps: dict[str, list[list[Phase]]] = {way: [] for way in WAYS}
    for _ in range(TURNS):
        for way, flag in WAYS.items():
            steps[way] += steps_of(programs.trace(COMMAND.replace("--overlap", flag)))
    return {way: min(found, key=lambda step: step[-1][2]) for way, found in steps.items()}


def draw_way(step: list[Phase], overlaps: bool, top: float, x: Callable[[float], float]) -> list[str]:
    parts = {name: (begin, end) for name, begin, end in step}
    buckets = [part for part in step if part[0].startswith("bucket")]
    computed, waited = parts["backward"][1], parts["wait for all-reduces"][1]
    # Without overlap, the backward pass pauses while a bucket travels.
    still = [time for _, begin, end in buckets if not overlaps for time in (begin, end)]
    edges = [parts["backward"][0], *still, computed]
    pieces = list(zip(edges[::2], edges[1::2]))
    waiting = waited - computed + sum(still[1::2]) - sum(still[::2])
    rows = [top + 12, top + 12 + ROW]

    def bar(row: int, begin: float, end: float, fill: str, ink: str, label: str = "") -> str:
        fits = x(end) - x(begin) > 8 * len(label)
        return svg.rect(x(begin) + 0.5, rows[row], max(1.0, x(end) - x(begin) - 1), BAR, rx=3, fill=fill) + (
            svg.middle(x((begin + end) / 2), rows[row] + 20, label, None, fill=ink) if fits else ""
        )

    drawn = [
        svg.text(0, top, f"{'With' if overlaps else 'Without'} overlap:", font_weight="bold")
        + svg.text(
            LEFT + 110, top, f"{parts['step'][1]:.0f} ms a step, {waiting:.0f} ms of them waiting for all-reduces"
        )
    ]
    for row, name in enumerate(["computation", "all-reduces"]):
        drawn.append(
            svg.text(0, rows[row] + 20, name, "m")
            + svg.rect(LEFT, rows[row], x(parts["step"][1]) - LEFT, BAR, rx=3, class_="p")
        )
    drawn.append(bar(0, *parts["forward"], svg.BLUE, "#ffffff", "forward"))
    drawn += [bar(0, *piece, svg.BLUE, "#ffffff", "backward") for piece in pieces]
    drawn.append(bar(0, waited, parts["step"][1], svg.GREEN, "#111111"))
    drawn += [bar(1, begin, end, svg.ORANGE, "#111111", name.split()[1]) for name, begin, end in buckets]
    return drawn


def draw(run: dict[str, Any]) -> str:
    last = max(run[way][-1][2] for way in WAYS)

    def x(time: float) -> float:
        return LEFT + (RIGHT - LEFT) * time / last

    bottom = TOP + 2 * PANEL
    parts = [
        svg.text(
            0,
            42,
            "Rank 0's fastest step of each run: two ranks, and all-reduces as slow as on a link of 1 Gbit/s.",
            "m",
        )
    ]
    parts += draw_way(run["without"], False, TOP, x)
    parts += draw_way(run["with"], True, TOP + PANEL, x)
    parts.append(svg.time_axis(x, bottom - 16, last, "ms"))
    for dx, fill, words in (
        (0, svg.BLUE, "forward and backward"),
        (190, svg.GREEN, "optimizer, mean loss"),
        (365, svg.ORANGE, "all-reduce of a bucket of gradients"),
        (640, None, "waits"),
    ):
        parts.append(
            svg.rect(LEFT + dx, bottom + 5, 14, 14, rx=3, fill=fill, class_=None if fill else "p")
            + svg.text(LEFT + dx + 20, bottom + 17, words, "m")
        )
    told = " ".join(
        f"{way.capitalize()} overlap: "
        + ", ".join(f"{name} {begin:.0f} to {end:.0f}" for name, begin, end in run[way])
        + "."
        for way in WAYS
    )
    return svg.document(
        bottom + 30,
        "Overlap: buckets travel while backward still computes",
        f"Times are in milliseconds. {told}",
        run["command"],
        parts,
    )
