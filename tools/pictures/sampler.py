"""Which samples each rank reads in two epochs, and which of them are padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import svg

if TYPE_CHECKING:
    from draw import Programs

SIZE, RANKS = 10, 4
COMMANDS = [
    f"mpirun -np {RANKS} build/bin/distributed_sampler --size {SIZE} --epoch {epoch} --json" for epoch in (0, 1)
]
COMMAND = "; ".join(COMMANDS)
LEFT, TOP, CELL, ROW, PANEL = 128, 88, 46, 32, 208


def record(programs: Programs) -> dict[str, Any]:
    """indices[epoch][rank]."""
    return {"indices": [[row["indices"] for row in programs.rows(command)] for command in COMMANDS]}


def sample(x: float, y: float, number: int, rank: int, again: bool) -> str:
    """Padding, which reads a sample a second time, has a dashed edge."""
    colour, words = svg.RANK_FILL[rank], (x + CELL / 2, y + ROW / 2 + 5, str(number))
    style = (
        {"class_": "p", "stroke": colour, "stroke_dasharray": "5 3"} if again else {"fill": colour, "stroke": colour}
    )
    return svg.rect(x + 3, y + 3, CELL - 6, ROW - 6, rx=4, stroke_width=2, **style) + svg.middle(
        *words, "t" if again else None, font_weight="bold", fill=None if again else svg.RANK_INK[rank]
    )


def draw_epoch(epoch: int, indices: list[list[int]], top: float) -> list[str]:
    places = range(sum(map(len, indices)))
    end = LEFT + len(places) * CELL
    parts = [
        svg.text(0, top + 21, f"epoch {epoch}", font_weight="bold")
        + svg.text(end + 10, top + 21, "the shuffled order", "m")
    ]

    def y(rank: int) -> float:
        return top + ROW * (rank + 1) + 10

    for rank in range(RANKS):
        parts.append(
            svg.text(0, y(rank) + 21, f"rank {rank} reads", "m")
            + svg.line(LEFT, y(rank) + ROW / 2, end, y(rank) + ROW / 2, stroke_opacity=0.4)
        )
    for place in places:  # rank r's first sample is at place r, its next one RANKS places on
        rank, x = place % RANKS, LEFT + place * CELL
        what = (indices[rank][place // RANKS], rank, place >= SIZE)
        parts.append(sample(x, top, *what) + sample(x, y(rank), *what))
    return parts


def draw(run: dict[str, Any]) -> str:
    padded = RANKS * len(run["indices"][0][0])
    parts = [
        svg.text(
            0,
            42,
            f"{SIZE} samples on {RANKS} ranks. Seed and epoch give all ranks the same "
            f"order; each rank takes every {RANKS}th place in it.",
            "m",
        ),
        svg.text(
            0,
            62,
            f"{SIZE} is not divisible by {RANKS}, so the first samples fill the order up "
            f"to {padded} places and are read twice (dashed).",
            "m",
        ),
    ]
    told = []
    for epoch, indices in enumerate(run["indices"]):
        parts += draw_epoch(epoch, indices, TOP + epoch * PANEL)
        told += [f"Epoch {epoch}, rank {rank}: {', '.join(map(str, share))}." for rank, share in enumerate(indices)]
    return svg.document(
        TOP + 2 * PANEL - 28,
        "Every rank finds its own samples, in a new order each epoch",
        " ".join(told),
        run["command"],
        parts,
    )
