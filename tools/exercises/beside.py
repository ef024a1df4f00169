"""A reader's solution and ours, one beside the other, or one above the other where there is no room."""

from __future__ import annotations

import itertools
import re
import textwrap

_LEAST = 60  # columns for each of the two


def body_of(text: str) -> list[str]:
    """Without the includes, the contract and the namespace, which both have."""
    inner = re.search(r"^namespace dist::exercise \{\n(.*)^\}", text, re.M | re.S)
    lines = (inner[1] if inner else text).strip("\n").splitlines()
    while lines and (lines[0].startswith("//") or not lines[0].strip()):
        del lines[0]
    return lines


def beside(yours: str, ours: str, width: int) -> str:
    left, right = body_of(yours), body_of(ours)
    column = (width - 3) // 2
    if column < _LEAST:
        return "\n".join(["// yours", *left, "", "// ours", *right])
    rows = [*itertools.zip_longest(_fitted("// yours", left, column), _fitted("// ours", right, column), fillvalue="")]
    return "\n".join(f"{mine:{column}} | {other}".rstrip() for mine, other in rows)


def _fitted(heading: str, lines: list[str], column: int) -> list[str]:
    fitted = [heading]
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        fitted += textwrap.wrap(
            line,
            column,
            subsequent_indent=indent,
            replace_whitespace=False,
            drop_whitespace=True,
            break_long_words=True,
        ) or [""]
    return fitted
