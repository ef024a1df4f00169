"""How a report shows numbers: as text, tables, and SVG charts. Nothing needs a script."""
import html
import math

WIDTH, LEFT, RIGHT = 960, 64, 940  # of a chart, in SVG's units


def printable(text):
    """Escapes line breaks and control characters."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(text))


def escaped(text):
    return html.escape(printable(text))


def digits(x):
    """A whole number, or three significant digits."""
    if type(x) is int and abs(x) < 1e7:
        return f"{x:,}"
    if x and not 1e-4 <= abs(x) < 1e7:
        return f"{x:.3g}"
    return f"{x:,.{min(6, max(0, 2 - math.floor(math.log10(abs(x))))) if x else 0}f}"


def milliseconds(x):
    return f"{digits(x)} ms"


def in_bytes(x):
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if x >= size:
            return f"{digits(x / size)} {unit}"
    return f"{x:g} bytes"


def percent(share):
    return f"{100 * share:.1f} %"


def value(raw, write=digits, more=""):
    """A number, shown rounded; the page holds the exact one."""
    return f'<data value="{raw!r}"{more}>{write(raw)}</data>'


def table(head, rows):
    """The first cell names its row. A column of numbers is aligned to the right."""
    kinds = [' class="n"' * any("<data" in cell for cell in column) for column in zip(*rows)]
    body = "".join(f"<th{kind}>{cell}</th>" for kind, cell in zip(kinds, head))
    for row in rows:
        cells = "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds[1:], row[1:]))
        body += f"<tr><th>{row[0]}</th>{cells}</tr>"
    return wide(f"<table>{body}</table>")


def named(kind, name):
    return f'<span class="swatch {kind}"></span>{name}'


def legend(*entries):
    return '<ul class="legend">' + "".join(f"<li>{named(*e)}</li>" for e in entries) + "</ul>"


def wide(content):
    """Scrolls sideways on a narrow screen."""
    return f'<div class="wide" tabindex="0">{content}</div>'


def drawing(height, description, parts):
    return wide(f'<svg viewBox="0 0 {WIDTH} {height}" role="img" '
                f'aria-label="{escaped(description)}">{"".join(parts)}</svg>')


def text_at(x, y, text, anchor="middle", kind="tick"):
    return (f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
            f"{escaped(text)}</text>")


def line(x1, y1, x2, y2, kind="grid"):
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def block(x, y, width, height, kind, title=""):
    return (f'<rect class="{kind}" x="{x:.2f}" y="{y:.1f}" width="{max(width, 0.4):.2f}" '
            f'height="{height}" rx="{2 * (width > 4)}"><title>{escaped(title)}</title></rect>')


def ticks(low, high, most):
    """Round numbers from low to high, at most `most` + 1 of them."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= rough * 0.999)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def curve(points, label, describe, means=()):
    """points: (step, number or None). means: (first step, last step, mean) of each epoch."""
    known = [p for p in points if p[1] is not None]
    low, high = (choose(y for _, y in known) for choose in (min, max))
    if low > 0 and high > 100 * low:
        label, scale = label + ", logarithmic scale", math.log10
        decades = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
        marks = [10.0 ** d for d in decades[::math.ceil(len(decades) / 8)]]
    else:
        low, scale = min(low, 0), float
        high = high if high > low else low + 1
        marks = ticks(low, high, 5)
    first, last = points[0][0], max(points[-1][0], points[0][0] + 1)
    top, bottom = 30, 250

    def at_x(step):
        return LEFT + (step - first) / (last - first) * (RIGHT - LEFT)

    def at_y(y):
        return bottom - (scale(y) - scale(low)) / (scale(high) - scale(low)) * (bottom - top)

    parts = [text_at(LEFT, 14, label, "start", "name"),
             text_at((LEFT + RIGHT) / 2, bottom + 40, "optimizer step")]
    for y in marks:
        parts.append(line(LEFT, at_y(y), RIGHT, at_y(y)))
        parts.append(text_at(LEFT - 8, at_y(y) + 4, f"{y:g}", "end"))
    for x in ticks(first, last, 8):
        parts.append(text_at(at_x(x), bottom + 20, f"{x:,.0f}" if x == int(x) else ""))
    path, pen = "", "M"
    for x, y in points:  # where there is no number, the curve has a gap
        path += "" if y is None else f"{pen}{at_x(x):.1f} {at_y(y):.1f}h.1"
        pen = "M" if y is None else "L"
    parts.append(f'<path class="curve" d="{path}"/>')
    for begin, end, mean in means:
        parts.append(line(at_x(begin), at_y(mean), at_x(end), at_y(mean), "mean"))
    shown = known[::math.ceil(len(known) / 320)]
    width = (RIGHT - LEFT) / len(shown)
    for x, y in shown:  # what appears where the reader points
        px, said = at_x(x), describe(x, y)
        parts.append(f'<g>{block(px - width / 2, top, width, bottom - top, "catch", said)}'
                     f'<g class="mark">{line(px, top, px, bottom)}{text_at(RIGHT, 14, said, "end")}'
                     f'<circle cx="{px:.1f}" cy="{at_y(y):.1f}" r="4"/></g></g>')
    return drawing(296, f"{label} of {len(points)} steps, {points[0][1]} to {points[-1][1]}", parts)


def bars(rows, unit, description):
    """rows: (name, [(class, name of the part, size)]), parts side by side, all to one scale."""
    scale = (RIGHT - 100) / (max(sum(size for *_, size in parts) for _, parts in rows) or 1)
    out, bottom = [], 46 * len(rows) + 2
    for tick in ticks(0, (RIGHT - 100) / scale, 8):
        out.append(text_at(100 + tick * scale, bottom + 18, f"{tick:g} {unit}"))
    for i, (name, parts) in enumerate(rows):
        x, y = 100, 8 + 46 * i
        out.append(text_at(0, y + 22, name, "start", "name"))
        for kind, part, size in parts:
            if size > 0:
                out.append(block(x, y, size * scale, 34, kind, f"{part}: {digits(size)} {unit}"))
                x += size * scale
    return drawing(bottom + 28, description, out)
