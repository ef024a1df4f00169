"""The blocks of a page, each with the marks (HTML comments) on the lines before its fence."""

from __future__ import annotations

import re

from repository import text


class Block:
    def __init__(self, page: str, line: int, language: str, marks: list[str], section: int) -> None:
        self.place = f"{page}:{line}"
        self.language, self.marks = language, marks  # the language is usually ""
        self.section = section  # how many headings come before it
        self.lines: list[str] = []  # without the indentation of the fence

    def mark(self, name: str) -> str | None:
        """The text after `name` in a mark: "needs a GPU" in <!-- not run: needs a GPU -->."""
        found = [mark.partition(": ")[2] for mark in self.marks if mark.split(": ")[0] == name]
        return found[0] if found else None

    def is_commands(self) -> bool:
        first = r"(\./learn|build/|tests/|(mpirun|srun|cmake|ctest|export|python3|for|cat) |\w+=)"
        return self.language in ("", "sh") and bool(re.match(first, "".join(self.lines[:1])))


def blocks_of(page: str) -> list[Block]:
    blocks: list[Block] = []
    marks: list[str] = []
    inside, indent, section = False, 0, 0
    for number, line in enumerate(text(page).splitlines(), 1):
        mark = re.fullmatch(" *<!-- (.*) -->", line)
        if line.lstrip(" ").startswith("```"):
            inside = not inside
            indent = line.index("`")
            if inside:
                blocks.append(Block(page, number, line[indent + 3 :], marks, section))
            marks = []
        elif inside:
            blocks[-1].lines.append(line[indent:])
        elif mark:
            marks.append(mark[1])
        else:
            marks = []
            section += line.startswith("#")
    assert not inside, f"{page}: the last fence is not closed"
    return blocks
