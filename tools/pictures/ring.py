"""The ring all-reduce, animated: whose shares each chunk holds, step by step. It is drawn from the
run on 4 ranks; the web site's player (docs/site/ring.js) shows all runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import svg

if TYPE_CHECKING:
    from draw import Programs

COMMAND = "mpirun -np 4 build/bin/all_reduce --algorithm ring --json"
SLOT, HEIGHT, GAP = 29, 34, 44  # of a share, of a chunk, between two ranks
CELL = 4 * SLOT + 8
PITCH = CELL + GAP
LEFT, TOP, ROW = 120, 122, 44
# Times in seconds: the pause before the first step, the motion of a step, the pause after a step,
# the extra pause between the two halves, and the display of the result.
BEFORE, MOVE, REST, BETWEEN, AFTER = 2.0, 1.0, 0.5, 1.0, 4.0
Move = tuple[int, int, int, int, str, str]


def record(programs: Programs) -> dict[str, Any]:
    """The rows of all messages, for 2 to 8 ranks."""
    return {
        str(ranks): [row for row in programs.rows(COMMAND.replace("-np 4", f"-np {ranks}")) if "message" in row]
        for ranks in range(2, 9)
    }


def follow(rows: list[dict[str, Any]]) -> tuple[dict[tuple[int, int], str], list[Move]]:
    """What each rank holds of each chunk at first, and the moves: (step, from, to, chunk, shares
    that travel, shares that the receiver holds afterwards)."""
    size = 1 + max(row["to"] for row in rows)
    first = {(rank, chunk): "abcd"[rank] for rank in range(size) for chunk in range(size)}
    now, moves = dict(first), list[Move]()
    for row in rows:
        place, shares = (row["to"], row["chunk"]), row["shares"]
        now[place] = "".join(sorted({*now[place], *shares}))
        moves.append((row["step"] - 1, row["from"], *place, shares, now[place]))
    return first, moves


def clock(steps: int) -> tuple[list[float], float]:
    """When each step starts and ends, and when the picture starts again."""
    starts = [BEFORE + step * (MOVE + REST) + (BETWEEN if step >= steps // 2 else 0) for step in range(steps)]
    return starts, starts[-1] + MOVE + AFTER


def animation(steps: int) -> str:
    """CSS: with steps counted from 0, class s3 appears after step 3; m3 moves and n3 is lit during
    it; f0 to f3 are lit in the four phases. Without motion, the state after the first half is shown."""
    starts, total = clock(steps)
    half = steps // 2
    frames, classes = [], []

    def animate(name: str, *keys: tuple[list[float], str]) -> None:
        """keys: pairs of a list of seconds and the CSS that holds at them."""
        css = "".join(
            ",".join(f"{100 * max(0, s) / total:.2f}%".replace(".00", "") for s in seconds) + "{" + what + "}"
            for seconds, what in keys
        )
        frames.append(f"@keyframes {name}{{{css}}}")
        classes.append(f".{name}{{animation:{name} {total}s infinite}}")

    def light(name: str, begin: float, end: float) -> None:
        dim = "opacity:.5"
        animate(
            name,
            *([([0, begin - 0.01], dim)] if begin else []),
            ([begin, end - 0.01], "opacity:1"),
            ([end, total], dim if end < total else "opacity:1"),
        )

    for step, start in enumerate(starts):
        end, there = start + MOVE, f"transform:translateX({PITCH}px)"
        animate(f"s{step}", ([0, end - 0.05], "opacity:0"), ([end, total], "opacity:1"))
        animate(
            f"m{step}",
            ([0, start - 0.01], "opacity:0"),
            ([start], "opacity:1;transform:none;animation-timing-function:ease-in-out"),
            ([end], f"opacity:1;{there}"),
            ([end + 0.01, total], f"opacity:0;{there}"),
        )
        light(f"n{step}", start, end + REST)
    edges = [0, starts[0], starts[half], starts[-1] + MOVE, total]
    for phase in range(4):
        light(f"f{phase}", edges[phase], edges[phase + 1])
    hidden = [f".s{step}" for step in range(half, steps)] + [f".m{step}" for step in range(steps)]
    return (
        f"{','.join(hidden)}{{opacity:0}}\n@media(prefers-reduced-motion:no-preference){{"
        f".still{{display:none}}{''.join(classes)}}}\n{''.join(frames)}"
    )


def shapes() -> str:
    """A chunk at 0,0: its plate, its edge, and the shares a to d in their places."""
    parts = [
        svg.rect(0, 0, CELL, HEIGHT, rx=5, class_="p", id="plate"),
        svg.rect(0, 0, CELL, HEIGHT, rx=5, class_="l", stroke_width=2, id="edge"),
    ]
    for rank, letter in enumerate("abcd"):
        x = 4 + rank * SLOT
        parts.append(svg.element("g", svg.box(x + 1, 4, SLOT - 2, HEIGHT - 8, 3, letter, rank), id=letter))
    return svg.element("defs", "".join(parts))


def put(names: Iterable[str], rank: int, chunk: int) -> str:
    """The shapes with these names, drawn at a rank's chunk."""
    return "".join(svg.element("use", href=f"#{name}", x=LEFT + rank * PITCH, y=TOP + chunk * ROW) for name in names)


def draw(run: dict[str, Any]) -> str:
    first, moves = follow(run["4"])
    size, count = 4, 1 + moves[-1][0]
    parts = [
        shapes(),
        svg.text(
            0,
            42,
            "Ring all-reduce on 4 ranks, drawn from a run: all ranks send to their right neighbours at the same time.",
            "m",
        ),
    ]
    for rank in range(size):
        x, y = LEFT + rank * PITCH, 78
        parts.append(svg.box(x, y, CELL, 30, 15, f"rank {rank}: {'abcd'[rank]}", rank))
        if rank + 1 < size:
            parts.append(svg.arrow(x + CELL + 4, y + 15, x + PITCH - 4, y + 15, stroke_width=2))
    end = LEFT + (size - 1) * PITCH + CELL
    parts.append(
        svg.path(
            f"M{end + 4} 93H{end + 16}Q{end + 28} 93 {end + 28} 81V73Q{end + 28} 61 "
            f"{end + 16} 61H{LEFT - 16}Q{LEFT - 28} 61 {LEFT - 28} 73V81"
            f"Q{LEFT - 28} 93 {LEFT - 16} 93H{LEFT - 4}",
            stroke_width=2,
            marker_end="url(#arrow)",
        )
    )
    for chunk in range(size):
        parts.append(
            svg.text(0, TOP + chunk * ROW + 22, f"chunk {chunk}", "m")
            + "".join(put(["plate", first[rank, chunk]], rank, chunk) for rank in range(size))
        )
    held = dict(first)
    for step, _, to, chunk, _, shares in moves:
        new = [letter for letter in shares if letter not in held[to, chunk]]
        whole = ["edge"] if len(shares) == size else []
        parts.append(svg.element("g", put(new + whole, to, chunk), class_=f"s{step}"))
        held[to, chunk] = shares
    parts.append(
        '<clipPath id="board">'
        + svg.rect(LEFT - 40, TOP - 2, end - LEFT + 80, size * ROW)
        + '</clipPath><g clip-path="url(#board)">'
    )
    for step, sender, to, chunk, travels, _ in moves:
        # A chunk that leaves the picture on the right enters it again on the left.
        parts += [
            svg.element("g", put([*travels, "edge"], place, chunk), class_=f"m{step}")
            for place in sorted({sender, to - 1})
        ]
    parts.append("</g>")
    half = count // 2
    phases = [
        "After backward, each rank has its own gradient, cut into four chunks.",
        "Reduce-scatter: each chunk moves right and collects every rank's share.",
        "All-gather: the finished chunks move on until every rank has them all.",
        "All ranks hold the same sum. Divided by 4, it is the average gradient.",
    ]
    bottom = TOP + size * ROW + 24
    for phase, sentence in enumerate(phases):
        y = bottom + 24 * phase
        parts.append(
            svg.element(
                "g",
                svg.middle(LEFT - 22, y, f"{phase + 1}", font_weight="bold") + svg.text(LEFT, y, sentence),
                class_=f"f{phase}",
            )
        )
        if phase in (1, 2):
            numbers = [svg.text(end - 110, y, "step", "m")]
            for step in range(half * (phase - 1), half * phase):
                numbers.append(
                    svg.middle(end - 60 + 25 * (step % half), y, str(step + 1), f"t n{step}", font_weight="bold")
                )
            parts.append("".join(numbers))
    parts.append(svg.text(LEFT, bottom + 96, f"Shown: the state after step {half}.", "m still"))
    return svg.document(
        bottom + 104,
        "One step of data-parallel training: four gradients become one sum",
        f"Four ranks in a ring hold four chunks each. In {half} steps chunks move to the right and "
        f"collect every rank's share. In {half} more steps the finished chunks move on, until all "
        "ranks hold the whole sum.",
        run["command"],
        parts,
        animation(count),
    )
