"""The binomial tree broadcast: who sends to whom in which round."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import svg

if TYPE_CHECKING:
    from draw import Programs

COMMAND = "mpirun -np 8 build/bin/broadcast --algorithm tree --json"
LEFT, PITCH, TOP, ROW, RADIUS = 128, 76, 84, 84, 17


def record(programs: Programs) -> dict[str, Any]:
    return {"messages": [row for row in programs.rows(COMMAND) if "message" in row]}


def node(x: float, y: float, age: int, radius: float = RADIUS, label: str = "") -> str:
    """age: rounds since the rank received the tensor; negative before that."""
    fill, ink = (None, None) if age < 0 else (svg.BLUE, "#ffffff") if age else (svg.ORANGE, "#111111")
    return svg.element("circle", cx=x, cy=y, r=radius, fill=fill, class_=None if fill else "p") + svg.middle(
        x, y + 5, label, None if ink else "m", fill=ink, font_weight="bold" if ink else None
    )


def message(x1: float, y1: float, x2: float, y2: float) -> str:
    """An arrow between the edges of two nodes."""
    length = math.hypot(x2 - x1, y2 - y1)
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    near, far = RADIUS + 2, length - RADIUS - 2
    return svg.arrow(x1 + near * dx, y1 + near * dy, x1 + far * dx, y1 + far * dy, stroke_width=2)


def draw(run: dict[str, Any]) -> str:
    messages = [(row["round"], row["from"], row["to"]) for row in run["messages"]]
    received = {0: 0, **{peer: turn for turn, _, peer in messages}}  # the round in which each receives
    size, last = len(received), max(received.values())

    def x(rank: int) -> float:
        return LEFT + rank * PITCH

    def y(turn: int) -> float:
        return TOP + turn * ROW

    bottom = y(last) + 48
    parts = [
        svg.text(
            0,
            42,
            "Binomial tree, drawn from a run: in each round, every rank that has the tensor "
            "sends it to one that does not.",
            "m",
        ),
        "".join(svg.line(x(rank), y(0), x(rank), y(last), stroke_opacity=0.35) for rank in range(size)),
    ]
    parts += [message(x(sender), y(turn - 1), x(peer), y(turn)) for turn, sender, peer in messages]
    for turn in range(last + 1):
        ages = [turn - received[rank] for rank in range(size)]
        parts.append(
            svg.text(0, y(turn) + 5, f"round {turn}" if turn else "start", font_weight="bold")
            + svg.text(x(size - 1) + 30, y(turn) + 5, f"{sum(age >= 0 for age in ages)} of {size} have it", "m")
            + "".join(node(x(rank), y(turn), age, label=str(rank)) for rank, age in enumerate(ages))
        )
    for dx, age, words in ((0, 0, "has just received it"), (180, 1, "has it"), (270, -1, "waits for it")):
        parts.append(node(LEFT + dx, bottom - 5, age, 8) + svg.text(LEFT + dx + 14, bottom, words, "m"))
    parts.append(
        svg.text(x(size - 1) + 17, bottom, f"{len(messages)} messages in {last} rounds", "m", text_anchor="end")
    )
    told = ", ".join(f"rank {sender} to {peer} in round {turn}" for turn, sender, peer in messages)
    return svg.document(
        bottom + 14,
        f"A tree broadcast reaches {size} ranks in {last} rounds",
        f"Messages: {told}.",
        run["command"],
        parts,
    )
