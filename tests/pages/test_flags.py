"""The flags that pages name exist: the programs that have them must be built."""

import functools
import re

import pytest
from programs import BUILD, built, command, need
from repository import PAGES, PROGRAMS, text

pytestmark = built


@functools.cache
def help_of(program: str) -> str:
    need(program)
    return command(f"$BIN/{program} --help-all").out


def has_flag(program: str, flag: str, value: str = "") -> bool:
    line = re.search(rf"[ ,]{flag}[ ={{,\n].*", help_of(program))
    return bool(line and value in line[0])


def test_the_cheat_sheet_names_flags_that_exist() -> None:
    # An item of a list: the programs before the colon and the flags after it.
    item = r"^- (All programs below|`(\w+)`)[^:]*:([^\n]*(?:\n  [^\n]*)*)"
    flags = [
        (each, flag, value)
        for _, program, listed in re.findall(item, text("docs/cheat_sheet.md"), re.M)
        for each in ([program] if program else PROGRAMS)
        for flag, value in re.findall(r"`(--[a-z-]+)(?: ([a-z]+)`)?", listed)
    ]
    assert [each for each in flags if not has_flag(*each)] == []
    assert len(flags) > 60


@pytest.mark.parametrize("page", PAGES)
def test_commands_have_flags_that_exist(page: str) -> None:
    """Those that cannot run here, too."""
    lines = re.sub(r"\\\n *", "", text(page)).splitlines()
    commands = [words for line in lines for words in re.findall(r"build/bin/(\w+ [^`;|>]*)", line)]
    assert [
        (words, flag)
        for words in commands
        for flag in re.findall("--[a-z-]+", words)
        if not has_flag(words.split()[0], flag)
    ] == []


# Flags of other programs that the lessons' pages name: mpirun's, Slurm's, torchrun's, CMake's, ompi_info's.
OF_OTHERS = {"--bind-to", "--build", "--distribution", "--level", "--max-restarts", "--nnodes", "--param", "--preset"}
OF_OTHERS |= {"--rdzv-endpoint"}


def test_the_pages_of_lessons_name_flags_that_exist() -> None:
    """In sentences and tables, too."""
    flag = r"(?<![\w-])--[a-z][a-z0-9-]*"
    for program in PROGRAMS:
        need(program)
    programs = [path.name for path in (BUILD / "bin").iterdir() if path.is_file()]
    scripts = ["tools/learn/words.py", "tools/learn/report.py", "tools/forecast.py", "bench/two_hosts.sh"]
    ours = {found for text_ in [*map(help_of, programs), *map(text, scripts)] for found in re.findall(flag, text_)}
    named = {
        found
        for page in PAGES
        if page.startswith("0")
        for code in re.findall("`([^`\n]+)`", text(page))
        for found in re.findall(flag, code)
    }
    assert named - ours == OF_OTHERS
