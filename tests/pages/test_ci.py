"""What .ci/run does in turn (.ci/parts), and that what only some runs start can start at all."""

import pathlib
import re
import shutil

import pytest
from programs import ROOT, command
from repository import FILES

PARTS = (ROOT / ".ci/parts").read_text()
FILES_OF = dict(re.findall(r"^  \[(\w+)\]='(.*?)'", PARTS, re.M))
LISTED = re.findall(r"^turns=\((.*?)\)", PARTS, re.M | re.S)[0]
TURNS = [turn.strip('"').split() for turn in re.findall(r'"[^"]+"|\w+', LISTED)]


@pytest.mark.parametrize(
    "words, error",
    [
        (".ci/run --part nothing", "--part nothing: "),
        (".ci/run --part", "--part: "),
        (".ci/run --nightly now", "--nightly now: "),
        ("tests/build_against.sh /no/such/prefix build-against", "the prefix /no/such/prefix is not a folder; "),
        ("tests/build_against.sh /usr", "two folders are needed; "),
        ("tests/other_debian.sh trixie", "a suite, such as trixie, and a folder are needed; "),
        ("tests/other_debian.sh trixie /", "/ is there, and not made by this script; "),
        ("tests/other_debian.sh trixie tests", "tests is there, and not made by this script; "),
        ("tests/fuzz/run.sh /no/such/build", "/no/such/build is not a build folder; "),
    ],
)
def test_a_script_refuses_what_it_cannot_do(words: str, error: str) -> None:
    result = command(words, ROOT)
    assert result.status == 2 and not result.out, result
    assert result.err.startswith(f"error: {error}") and result.err.count("\n") == 1, result


def test_each_part_has_one_turn_and_is_there() -> None:
    assert sorted(part for turn in TURNS for part in turn) == sorted({*FILES_OF} - {"solutions"})
    assert len(TURNS) > 3
    for part, files in FILES_OF.items():
        assert f"\npart_{part}() {{" in PARTS
        assert [name for name in FILES if re.search(files, name)], part


@pytest.fixture
def history(tmp_path: pathlib.Path) -> pathlib.Path:
    """A repository of .ci/ alone, with one commit."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    assert command("git init -q", tmp_path).status == 0
    commit(tmp_path, "2026-01-01T00:00:00Z", ".ci")
    return tmp_path


def commit(folder: pathlib.Path, when: str, *files: str) -> None:
    for name in files:
        if not (folder / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("new\n")
    author = "git -c user.name=me -c user.email=me@here"
    done = command(
        f"git add {' '.join(files)} && {author} commit -q --allow-empty -m it",
        folder,
        GIT_COMMITTER_DATE=when,
        GIT_AUTHOR_DATE=when,
    )
    assert done.status == 0, done.err


def drawn(folder: pathlib.Path) -> list[str]:
    result = command(".ci/run --draw", folder)
    assert result.status == 0, result.err
    return result.out.splitlines()


def test_the_turns_follow_the_number_of_commits(history: pathlib.Path) -> None:
    for count in range(1, len(TURNS) + 2):
        assert drawn(history) == [f"{part}: its turn" for part in TURNS[count % len(TURNS)]]
        commit(history, f"2026-01-{count + 1:02}T00:00:00Z")


def test_a_part_whose_files_the_last_commits_touched_is_drawn(history: pathlib.Path) -> None:
    commit(history, "2026-01-02T00:00:00Z", "bench/old.svg")
    commit(history, "2026-01-03T00:00:00Z", "docs/site/new.js")
    commit(history, "2026-01-03T03:00:00Z", "README.md")
    touched = "browser: the last commits touched docs/site/new.js"
    assert drawn(history) == [f"{part}: its turn" for part in TURNS[4 % len(TURNS)]] + [touched]
