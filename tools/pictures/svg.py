"""SVG elements as text, and the colours and sizes that all pictures share.

A picture is 830 units wide, which is about the width of a page on GitHub, so readers see font sizes
as they are written here. The classes t (text), m (muted text), p (plates), d (dots) and k (strong
lines) follow the reader's light or dark theme.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape, quoteattr

WIDTH = 830
# Okabe and Ito's colours, which colour-blind readers can tell apart, and the colour of text on
# them.
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
RANK_FILL = [BLUE, ORANGE, GREEN, PINK]
RANK_INK = ["#ffffff", "#111111", "#111111", "#111111"]
STYLE = """
text{font-family:sans-serif;font-size:14px}
.t{fill:#1f2328}.m{fill:#59636e}.p{fill:#e3e8ee}.d{fill:#0072b2}.k{stroke:#1f2328}
.l{stroke:#818b98;fill:none}.h{fill:#818b98}
@media(prefers-color-scheme:dark){.t{fill:#f0f6fc}.m{fill:#9da7b3}.p{fill:#2a313c}.d{fill:#56b4e9}
.k{stroke:#f0f6fc}}
""".strip()
ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="11" '
    'markerHeight="11" markerUnits="userSpaceOnUse" orient="auto"><path class="h" d="M0 0L8 4L0 8z"/></marker>'
)


def number(value: str | float) -> str:
    """Shows at most one decimal: a tenth of a pixel is enough."""
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def element(name: str, content: str = "", /, **attributes: str | float | None) -> str:
    """A trailing underscore of an attribute is dropped (class_); others become hyphens."""
    text = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(number(value))}"
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{text}>{content}</{name}>" if content else f"<{name}{text}/>"


def text(x: float, y: float, words: str, class_: str | None = "t", **attributes: str | float | None) -> str:
    return element("text", escape(words), class_=class_, x=x, y=y, **attributes)


def middle(x: float, y: float, words: str, class_: str | None = "t", **attributes: str | float | None) -> str:
    return text(x, y, words, class_, text_anchor="middle", **attributes)


def bold(x: float, y: float, words: str, ink: str) -> str:
    """Text in the middle of something coloured."""
    return middle(x, y, words, None, fill=ink, font_weight="bold")


def rect(x: float, y: float, width: float, height: float, **attributes: str | float | None) -> str:
    return element("rect", x=x, y=y, width=width, height=height, **attributes)


def box(x: float, y: float, width: float, height: float, rx: float, words: str, rank: int) -> str:
    """A rectangle in the colour of a rank, and words in its middle."""
    return rect(x, y, width, height, rx=rx, fill=RANK_FILL[rank % 4]) + bold(
        x + width / 2, y + height / 2 + 5, words, RANK_INK[rank % 4]
    )


def path(d: str, **attributes: str | float | None) -> str:
    given: dict[str, str | float | None] = {"class_": "l", **attributes}
    return element("path", d=d, **given)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: str | float | None) -> str:
    return path(f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}", **attributes)


def arrow(x1: float, y1: float, x2: float, y2: float, **attributes: str | float | None) -> str:
    return line(x1, y1, x2, y2, marker_end="url(#arrow)", **attributes)


def time_axis(x: Callable[[float], float], y: float, last: float, unit: str) -> str:
    """At most nine labels from 0 to `last`; x maps a time to its place."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if last / step <= 8)
    return "".join(middle(x(time), y, f"{time} {unit}", "m") for time in range(0, int(last) + 1, step))


def document(height: float, title: str, description: str, command: str, parts: Sequence[str], style: str = "") -> str:
    """The title is also drawn, at the top. The description is for screen readers."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="title desc">'
    )
    return "\n".join(
        [
            head,
            element("title", escape(title), id="title"),
            element("desc", escape(f"{description} Drawn from the output of {command}"), id="desc"),
            f"<style>{STYLE}{style}</style>",
            f"<defs>{ARROW}</defs>",
            text(0, 20, title, style="font-size:18px;font-weight:bold") + "".join(parts),
            "</svg>\n",
        ]
    )
