"""Numbered passages: `[3]` on a page, after a link to a file, means the comment "// [3] ..." in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from programs import ROOT
from repository import FILES, LESSONS, PAGES, SOURCE, text

pytestmark = pytest.mark.quick

LINK = r"\[[^\]\[]*\]\(([^)\s#]+)[^)]*\)"
PASSAGE = r"`\[(\d+)\]`(?:\s+to\s+`\[(\d+)\]`)?"  # one, or the first and the last
HINTS = [name for name in FILES if name.endswith("/exercises.toml")]


def passages_of(page: str) -> Iterator[tuple[str | None, int]]:
    """(file, number) of each passage that the page names: it belongs to the last link before it in its
    paragraph or item, and to no file if there is none."""
    prose = re.sub(r"```.*?```", "", text(page), flags=re.S)
    for paragraph in re.split(r"\n(?=\s*\n|\d+\. |- )", prose):
        file = None
        for found in re.finditer(f"{LINK}|{PASSAGE}", paragraph):
            target, first, last = found.groups()
            if target and "://" not in target:
                file = ((ROOT / page).parent / target).resolve().relative_to(ROOT).as_posix()
            elif first:
                yield from ((file, number) for number in range(int(first), int(last or first) + 1))


def passages_of_hints(file: str) -> list[tuple[str, int]]:
    """./learn prints hints as they are, so they have no links: "`[4]` in 01_send_recv/send_recv.hpp"."""
    found = re.findall(r"`\[(\d+)\]` in\s+([\w/]+\.[ch]pp)", text(file))
    return [(named, int(number)) for number, named in found]


def marks_in(file: str) -> list[int]:
    """The numbers of the comments that begin with one."""
    return [int(number) for number in re.findall(r"(?://|#) \[(\d+)\]", text(file))]


NAMED: list[tuple[str, str | None, int]] = [(page, *passage) for page in PAGES for passage in passages_of(page)]
HINTED: list[tuple[str, str | None, int]] = [(page, *passage) for page in HINTS for passage in passages_of_hints(page)]
MARKED = [
    (file, number)
    for file in FILES
    if file.startswith((*LESSONS, "common/", "tools/")) and file.endswith((*SOURCE, ".py"))
    for number in marks_in(file)
]


@pytest.mark.parametrize("page, file, number", NAMED + HINTED)
def test_a_passage_that_a_page_names_is_marked_once(page: str, file: str | None, number: int) -> None:
    assert file, f"{page}: no link to a file comes before `[{number}]`"
    assert marks_in(file).count(number) == 1, f"{page}: in {file}, one comment must begin with [{number}]"


@pytest.mark.parametrize("file, number", MARKED)
def test_a_marked_passage_is_named_by_a_page(file: str, number: int) -> None:
    assert (file, number) in [named[1:] for named in NAMED], f"no page names [{number}] of {file}"


@pytest.mark.parametrize("file", HINTS)
def test_a_hint_says_in_which_file_a_passage_is(file: str) -> None:
    assert len(passages_of_hints(file)) == len(re.findall(PASSAGE, text(file)))
