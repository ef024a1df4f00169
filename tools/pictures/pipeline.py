"""One step of a pipeline of two stages with each schedule: which micro-batch each stage works on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import svg

if TYPE_CHECKING:
    from draw import Programs

COMMAND = (
    "mpirun -np 2 build/bin/pipeline_parallel --schedule 1f1b --micro-batches 4 --steps 20 "
    "--layers 784,32,1024,1024,1024,1024,1024,32,10 --batch-size 512 --trace pipeline.json"
)
SCHEDULES = {"gpipe": "GPipe", "1f1b": "1F1B"}
LEFT, RIGHT, TOP, PANEL, ROW, BAR = 70, 804, 72, 128, 40, 32
Task = list[Any]  # stage, name, micro-batch, begin, end


def steps_of(events: list[dict[str, Any]]) -> Iterator[list[Task]]:
    """Step by step: [stage, name, micro-batch, begin, end] in milliseconds since its begin."""
    tasks = [event for event in events if event.get("cat") == "phase"]
    begins = [
        task["ts"]
        for task in tasks
        if task["pid"] == 0 and task["name"] == "forward" and task["args"]["tensor"] == "micro-batch 0"
    ]
    for begin, end in zip(begins, begins[1:]):
        yield [
            [
                task["pid"],
                task["name"],
                int(task["args"]["tensor"].split()[1]),
                round((task["ts"] - begin) / 1000, 2),
                round((task["ts"] + task["dur"] - begin) / 1000, 2),
            ]
            for task in tasks
            if begin <= task["ts"] < end
        ]


def length(step: list[Task]) -> float:
    return max(end for *_, end in step)


def record(programs: Programs) -> dict[str, Any]:
    """The fastest step of each schedule, since other work on the machine only makes steps longer."""
    return {
        name: min(
            (step for _ in range(5) for step in steps_of(programs.trace(COMMAND.replace("1f1b", name)))), key=length
        )
        for name in SCHEDULES
    }


def held(step: list[Task], stage: int) -> int:
    """The most micro-batches whose activations the stage holds at a time."""
    now = most = 0
    for _, name, *_ in sorted((task for task in step if task[0] == stage), key=lambda task: task[3]):
        now += 1 if name == "forward" else -1
        most = max(most, now)
    return most


def draw(run: dict[str, Any]) -> str:
    last = max(length(run[name]) for name in SCHEDULES)

    def x(time: float) -> float:
        return LEFT + (RIGHT - LEFT) * time / last

    parts = []
    for panel, (name, title) in enumerate(SCHEDULES.items()):
        top = TOP + panel * PANEL
        parts.append(
            svg.text(
                0,
                top - 12,
                f"{title}: stage 0 holds the activations of up to "
                f"{held(run[name], 0)} micro-batches, stage 1 of {held(run[name], 1)}",
            )
        )
        for stage in range(2):
            y = top + stage * ROW
            parts.append(
                svg.text(0, y + 21, f"stage {stage}", "m")
                + svg.rect(LEFT, y, x(length(run[name])) - LEFT, BAR, rx=3, class_="p")
            )
        for stage, what, micro_batch, begin, end in run[name]:
            fill, ink = (svg.BLUE, "#ffffff") if what == "forward" else (svg.GREEN, "#111111")
            y = top + stage * ROW
            parts.append(
                svg.rect(x(begin) + 0.5, y, max(1.0, x(end) - x(begin) - 1), BAR, rx=3, fill=fill)
                + svg.bold((x(begin) + x(end)) / 2, y + 21, str(micro_batch), ink)
            )
    bottom = TOP + 2 * PANEL
    parts.append(svg.time_axis(x, bottom - 24, last, "ms"))
    for dx, colour, words in (
        (0, svg.BLUE, "forward of a micro-batch"),
        (220, svg.GREEN, "backward"),
        (340, None, "idle"),
    ):
        parts.append(
            svg.rect(LEFT + dx, bottom, 14, 14, rx=3, fill=colour, class_=None if colour else "p")
            + svg.text(LEFT + dx + 20, bottom + 12, words, "m")
        )
    told = " ".join(
        f"{title}: "
        + ", ".join(
            f"stage {stage} {what} {number} {begin:.0f} to {end:.0f}" for stage, what, number, begin, end in run[name]
        )
        + "."
        for name, title in SCHEDULES.items()
    )
    return svg.document(
        bottom + 24,
        "Two schedules of a pipeline with two stages and four micro-batches",
        f"Times are in milliseconds. {told}",
        run["command"],
        parts,
    )
