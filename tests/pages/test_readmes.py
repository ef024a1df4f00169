"""The commands that a page shows run, and print what the page shows. CONTRIBUTING.md, "READMEs",
has the rules and the marks. A case is named after its page and line. The commands of a page run one
after the other in a folder that looks like the root of the repository, on the CPU.
"""

from __future__ import annotations

import pathlib
import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from page import Block, blocks_of
from programs import BUILD, EMULATED, HIDE_GPUS, ROOT, SANITIZED, built, command
from repository import LESSONS, PAGES, PROGRAMS, text
from same_output import difference, without_mpirun

MARKS = (
    r"picture|not run: .+|run if: .+|exit: [0-9]+|says: .+|output of: .+|output of each|"
    r"output: (numbers|any order|within [0-9.]+)|shown by: .+"
)


class Run(NamedTuple):
    page: str
    block: Block
    commands: str | None
    output: Block | None


def shows(block: Block, following: Block) -> bool:
    """Whether the block shows what the commands before it print; no heading comes between them."""
    others = ("picture", "not run", "output of")
    return (
        following.language == ""
        and not following.is_commands()
        and not any(following.mark(other) is not None for other in others)
        and following.section == block.section
    )


def runs_of(page: str) -> Iterator[Run]:
    """What a page says must run; `commands` is None if a block does not say what it is."""
    blocks = blocks_of(page)
    elsewhere = [block.mark("output of") for block in blocks]  # these run with the output's block
    output = None
    for block, following in zip(blocks, [*blocks[1:], None]):
        is_output = block is output
        output = None
        if is_output or block.language in ("cpp", "diff") or block.mark("not run") or block.mark("picture") is not None:
            continue
        if block.mark("output of"):
            yield Run(page, block, block.mark("output of"), block)
        elif block.is_commands() or block.language == "python":
            output = following if following and shows(block, following) else None
            lines = [line for line in block.lines if line not in elsewhere]
            each = output and output.mark("output of each") is not None
            for commands in lines if each else ["\n".join(lines)] if lines else []:
                yield Run(page, block, commands, output)
        else:
            yield Run(page, block, None, None)


RUNS = [run for page in PAGES for run in runs_of(page)]


# Where each page of lessons 1 to 4 first runs the lesson's program is in the quick tier.
FIRST = [
    next(
        run
        for run in RUNS
        if run.page == f"{lesson}/README.md" and re.search(rf"build/bin/{program}\b(?!/)", run.commands or "")
    )
    for lesson, program in zip(LESSONS[:4], PROGRAMS)
]


def tier_of(run: Run) -> list[pytest.MarkDecorator]:
    """The lessons' own pages run every time, those for the second reading in turn (.ci/parts)."""
    if run in FIRST:
        return [pytest.mark.quick]
    return [pytest.mark.long] if "/advanced/" in run.page else []


def words_said(run: Run) -> list[str]:
    """What the output must contain, since the text around the block quotes it."""
    return [mark[6:] for mark in run.block.marks if mark.startswith("says: ")]


@pytest.mark.quick
def test_a_block_is_a_command_or_its_output_or_a_mark_says_what_it_is() -> None:
    assert [run.block.place for run in RUNS if run.commands is None] == []
    assert [
        f"{block.place}: {mark}"
        for page in PAGES
        for block in blocks_of(page)
        for mark in block.marks
        if not re.fullmatch(MARKS, mark)
    ] == []
    assert [
        f"{run.block.place}: {words}" for run in RUNS for words in words_said(run) if f"`{words}`" not in text(run.page)
    ] == []
    assert len(RUNS) >= 50


@pytest.fixture
def folder(run: Run, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The page's folder, with a .learn/ of its own, which receives the files that programs write.
    (./learn follows the link to itself and keeps its own in the repository.)"""
    place = tmp_path_factory.getbasetemp() / run.page.replace("/", "-")
    if not place.exists():
        place.mkdir()
        for entry in ROOT.iterdir():
            if not entry.name.startswith(("build", ".")):
                (place / entry.name).symlink_to(entry)
        (place / "build").symlink_to(BUILD)
    return place


def status_of(run: Run) -> int:
    if status := run.block.mark("exit"):
        return int(status)
    shown = "\n".join(run.output.lines) if run.output else ""
    return 86 if "hang: " in shown else 2 if shown.startswith("error: ") else 0


@built
@pytest.mark.skipif(EMULATED or SANITIZED, reason="the pages show programs built for normal use")
@pytest.mark.parametrize("run", [pytest.param(run, id=run.block.place, marks=tier_of(run)) for run in RUNS])
def test_commands_print_what_the_page_shows(run: Run, folder: pathlib.Path) -> None:
    needed = run.block.mark("run if")
    if needed and command(needed, folder).status != 0:
        pytest.skip(f"needs: {needed}")
    assert run.commands is not None
    shell = "python3" if run.block.language == "python" else "bash -e"
    result = command(
        f"unset LEARN_BUILD_DIR; exec {shell} -c {shlex.quote(run.commands)} 2>&1", folder, limit=900, **HIDE_GPUS
    )
    if result.status == 77 and result.out.startswith("skipped: "):
        pytest.skip(result.out)
    assert result.status == status_of(run), result.out
    assert [words for words in words_said(run) if words not in result.out] == [], result.out
    if run.output:
        found = difference(run.output.lines, without_mpirun(result.out), run.output.mark("output"))
        assert found is None, f"{run.output.place}: {found}\n{result.out}"
