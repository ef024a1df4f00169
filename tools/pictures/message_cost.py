"""What a message costs: measured times against sizes, and the fitted line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import svg

if TYPE_CHECKING:
    from draw import Programs

PINGPONG = "mpirun -np 2 --bind-to core build/bin/send_recv_perf --act pingpong --json"
LIMIT = PINGPONG.replace("pingpong", "eager")
COMMAND = f"{PINGPONG}; {LIMIT}"
TURNS = 5
LEFT, RIGHT, TOP, BOTTOM = 84, 806, 60, 396


def record(programs: Programs) -> dict[str, Any]:
    """Measured bytes and microseconds, the fitted line, and the eager limit. The fastest of several runs is kept,
    since other work on the machine only makes messages slower."""
    turns = [programs.rows(PINGPONG) for _ in range(TURNS)]
    rows = min(turns, key=lambda rows: sum(row.get("time_us", 0) for row in rows))
    fit = next(row for row in rows if row["act"] == "fit")
    limit = next(row for row in programs.rows(LIMIT) if row["act"] == "eager")
    return {
        "eager_limit": limit["eager_limit_bytes"],
        "fit": {key: fit[key] for key in ("alpha_us", "beta_ns_per_byte", "r2")},
        "points": [[row["bytes"], row["time_us"]] for row in rows if row["act"] == "pingpong"],
    }


def size_text(size: float) -> str:
    for unit in ("B", "KiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} MiB"


def time_text(us: float) -> str:
    return f"{us:g} µs" if us < 1000 else f"{us / 1000:g} ms"


def draw(run: dict[str, Any]) -> str:
    points = run["points"]
    alpha, beta = run["fit"]["alpha_us"], run["fit"]["beta_ns_per_byte"] / 1000
    first, last, crossing = points[0][0] / 2, points[-1][0] * 2, alpha / beta
    limit = run["eager_limit"]
    low = math.floor(math.log10(0.4 * min([alpha] + [time for _, time in points])))
    high = math.ceil(math.log10(last * beta))

    def x(size: float) -> float:
        return LEFT + (RIGHT - LEFT) * math.log(size / first) / math.log(last / first)

    def y(time: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (math.log10(time) - low) / (high - low)

    parts = []
    for power in range(low, high + 1):
        level = y(10.0**power)
        parts.append(
            svg.line(LEFT, level, RIGHT, level, stroke_opacity=0.3)
            + svg.text(LEFT - 8, level + 5, time_text(10.0**power), "m", text_anchor="end")
        )
    for size, _ in points:
        parts.append(
            svg.line(x(size), BOTTOM, x(size), BOTTOM + 5)
            + svg.middle(x(size), BOTTOM + 21, size_text(size), "m", style="font-size:13px")
        )
    parts.append(
        svg.middle((LEFT + RIGHT) / 2, BOTTOM + 44, "size n of the message")
        + svg.text(0, 42, "time, one way (both axes are logarithmic)", "m")
    )
    parts += [
        svg.line(*ends, stroke_dasharray="6 4", stroke_width=1.5)
        for ends in (
            (x(first), y(alpha), x(crossing * 32), y(alpha)),
            (x(crossing), y(alpha), x(last), y(last * beta)),
            (x(crossing), y(alpha), x(crossing), BOTTOM),
            (x(limit), y(alpha + limit * beta), x(limit), y(20 * alpha)),
        )
    ]
    curve = [first * (last / first) ** (i / 60) for i in range(61)]
    parts.append(
        svg.path(
            "M" + "L".join(f"{x(n):.1f} {y(alpha + n * beta):.1f}" for n in curve),
            class_=None,
            stroke=svg.ORANGE,
            stroke_width=3,
            fill="none",
        )
    )
    parts.append("".join(svg.element("circle", class_="d", cx=x(size), cy=y(time), r=5.5) for size, time in points))
    for left, level, words in (
        (first * 1.3, y(alpha) + 22, f"alpha = {alpha:.2g} µs: the latency of any message"),
        (crossing * 1.2, BOTTOM - 30, f"alpha / beta = {size_text(crossing)}:"),
        (crossing * 1.2, BOTTOM - 11, "here latency and bytes cost the same"),
        (131072, y(10**0.5) - 4, f"beta = {1000 * beta:.2g} ns per byte:"),
        (131072, y(10**0.5) + 15, f"a bandwidth of {0.001 / beta:.2g} GB/s"),
    ):
        parts.append(svg.text(x(left), level, words))
    for level, words in ((-4, f"eager limit, {limit} bytes:"), (15, "a step that the line ignores")):
        parts.append(svg.text(x(limit) - 10, y(10**0.5) + level, words, text_anchor="end"))
    legend = TOP + 26
    parts.append(
        svg.element("circle", class_="d", cx=LEFT + 30, cy=legend, r=5.5)
        + svg.text(LEFT + 52, legend + 5, "measured between two ranks of one host")
        + svg.line(LEFT + 18, legend + 24, LEFT + 42, legend + 24, class_=None, stroke=svg.ORANGE, stroke_width=3)
        + svg.text(LEFT + 52, legend + 29, f"fitted: alpha + n x beta (r2 = {run['fit']['r2']:.3f})")
    )
    told = ", ".join(f"{size_text(size)} {time:.3g}" for size, time in points)
    return svg.document(
        BOTTOM + 56, "What a message costs: alpha + n x beta", f"Microseconds by size: {told}.", run["command"], parts
    )
