"""The charts at the top of the result pages, as SVG in the style of the READMEs' pictures."""

from __future__ import annotations

import math
import pathlib
import sys
from collections.abc import Iterable, Mapping
from typing import Optional

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tools" / "pictures"))
import svg
from message_cost import size_text, time_text

COLOURS = [svg.BLUE, "#56B4E9", svg.ORANGE, svg.PINK, svg.GREEN, "#818b98", "#D55E00"]
LEFT, RIGHT, TOP = 84, 806, 44
ROW, GAP = 20, 14  # of a bar, and between groups

Group = tuple[str, dict[str, float], Optional[float]]


def legend(names: Iterable[str], y: float) -> list[str]:
    parts, x = [], 0.0
    for name, colour in zip(names, COLOURS):
        parts.append(svg.rect(x, y - 10, 12, 12, fill=colour) + svg.text(x + 17, y, name))
        x += 36 + 7.5 * len(name)
    return parts


def curves(title: str, command: str, series: Mapping[str, list[tuple[int, float]]]) -> str:
    """Microseconds against bytes: {name: [(bytes, microseconds)]}. The last one is the limit, which
    is dashed."""
    bottom = 400
    sizes = sorted({size for points in series.values() for size, _ in points})
    times = [time for points in series.values() for _, time in points]
    low = math.floor(math.log10(min(times)))
    high = max(low + 1, math.ceil(math.log10(max(times))))

    def y(time: float) -> float:
        return bottom - (bottom - TOP - 32) * (math.log10(time) - low) / (high - low)

    def x(size: float) -> float:
        return (
            LEFT
            + 20
            + (RIGHT - LEFT - 40) * (math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0]) if sizes[1:] else 0.5)
        )

    parts = legend(series, TOP)
    for power in (10.0**exponent for exponent in range(low, high + 1)):
        parts.append(
            svg.line(LEFT, y(power), RIGHT, y(power), stroke_opacity=0.3)
            + svg.text(LEFT - 8, y(power) + 5, time_text(power), "m", text_anchor="end")
        )
    parts += [svg.middle(x(size), bottom + 20, size_text(size), "m") for size in sizes]
    for (name, points), colour in zip(series.items(), COLOURS):
        dashes = "6 4" if name == list(series)[-1] else None
        parts.append(
            svg.path(
                "M" + "L".join(f"{x(size):.1f} {y(time):.1f}" for size, time in points),
                class_=None,
                stroke=colour,
                fill="none",
                stroke_width=2.5,
                stroke_dasharray=dashes,
            )
        )
        parts += [svg.element("circle", cx=x(size), cy=y(time), r=3.5, fill=colour) for size, time in points]
    return svg.document(
        bottom + 30, title, "Both axes are logarithmic. The tables of the page have the same numbers.", command, parts
    )


def bars(title: str, command: str, unit: str, groups: list[Group]) -> str:
    """[(label, {name: value}, floor or None)]. The longest bar of each group fills the width, and a
    line across the bars marks the floor."""
    names = list(dict.fromkeys(name for _, values, _ in groups for name in values))
    parts, y = legend(names, TOP), TOP + 20
    if any(least for _, _, least in groups):
        parts.append(svg.text(RIGHT, TOP, "| floor", text_anchor="end", font_weight="bold"))
    for label, values, least in groups:
        scale = (RIGHT - 80) / max(*values.values(), least or 0)
        parts.append(svg.text(0, y + 14, label, "m"))
        y += ROW
        for name, value in values.items():
            end = least if least and 0 <= scale * (least - value) < 70 else value  # not on the line
            parts.append(
                svg.rect(0, y, scale * value, ROW - 4, fill=COLOURS[names.index(name)])
                + svg.text(scale * end + 6, y + 13, f"{value:.3g} {unit}")
            )
            y += ROW
        if least:
            parts.append(
                svg.line(scale * least, y - ROW * len(values) - 3, scale * least, y - 1, class_="k", stroke_width=2.5)
            )
        y += GAP
    return svg.document(
        y, title, "Every group has its own scale. The tables of the page have the same numbers.", command, parts
    )
