"""./learn WORD --help, help, completion and the cheat sheet come from one table; what is mistyped is asked about."""

import pathlib
import re

import pytest
from programs import ROOT, command

from words import WORDS

NAMES = [word.name for word in WORDS]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("report", "bench")])
def test_a_word_explains_itself_and_does_nothing(name: str, tmp_path: pathlib.Path) -> None:
    result = command(f"{ROOT}/learn {name} --help", tmp_path, LEARN_BUILD_DIR=str(tmp_path / "build"))
    assert result.status == 0 and result.out.startswith("./learn") and not result.err, result
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["report", "bench"])
def test_scripts_explain_their_own_flags(name: str, tmp_path: pathlib.Path) -> None:
    result = command(
        f"{ROOT}/learn {name} --help", tmp_path, LEARN_BUILD_DIR=str(tmp_path / "build"), PYTHONSAFEPATH="1"
    )  # which forbids scripts to import what is beside them
    assert result.status == 0 and "--" in result.out and not [*tmp_path.iterdir()], result


@pytest.mark.parametrize(
    "typed, said",
    [
        ("tset", "tset: no such command; did you mean ./learn test? ./learn help lists all"),
        ("Check 3", "Check: no such command; did you mean ./learn check? "),
        ("01", "01: no such command; did you mean ./learn 1? "),
        ("--nonesuch", "--nonesuch: no such command; ./learn help lists all"),
    ],
)
def test_the_error_comes_first(typed: str, said: str) -> None:
    result = command(f"{ROOT}/learn {typed}")
    assert result.status == 2 and not result.out and result.err.startswith(f"error: {said}"), result


@pytest.mark.parametrize("name", NAMES)
def test_help_of_a_word_is_what_the_word_says_of_itself(name: str) -> None:
    assert command(f"{ROOT}/learn help {name}").out.startswith("./learn")


@pytest.mark.parametrize("flag, form", [("--watch", "check"), ("--take", "solution EXERCISE"), ("--gpu", "test")])
def test_help_of_a_flag_shows_what_has_it(flag: str, form: str) -> None:
    assert re.match(rf"\./learn {form}.*", command(f"{ROOT}/learn help {flag}").out)


@pytest.mark.parametrize("typed", ["help", "--help", "-h"])
def test_help_has_every_word(typed: str) -> None:
    shown = command(f"{ROOT}/learn {typed}").out
    for name in NAMES:
        assert name in ("map", *"2345") or re.search(rf"^\./learn {name}\b", shown, re.M), name


def test_bash_completes_the_words() -> None:
    script = """eval "$(%s/learn completion)"
    complete_as() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _learn; echo "${COMPREPLY[@]}"; }
    complete_as ./learn so; complete_as ./learn solution --t; complete_as ./learn more ten"""
    assert command(script % ROOT).out.splitlines() == ["solution", "--take", "tensor_parallel"]


def test_the_cheat_sheet_has_the_table() -> None:
    page = (ROOT / "docs/cheat_sheet.md").read_text()
    rows = dict(re.findall(r"^\| `\./learn(?: ([\w-]+))?[^`]*` \| (.*?) \|$", page, re.M))
    for word in WORDS:
        if word.forms and word.name not in ("map", "1"):
            assert word.name in rows, word.name
    assert {*rows} <= {*NAMES, ""}
