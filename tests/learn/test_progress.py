"""The progress of the exercises: the last line about a thing counts, an old file is read, and nothing is lost."""

import multiprocessing
import pathlib

import pytest

import progress
from console import Failed

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(progress, "FILE", tmp_path / "progress")
    return tmp_path / "progress"


def test_the_last_line_counts(file: pathlib.Path) -> None:
    file.write_bytes(b"done 01/exchange\nnonsense\n\0\xff\nhint 02/tree_broadcast 2\ndone\n")
    found = progress.Progress()
    assert (found.done, found.hints) == ({"01/exchange"}, {"02/tree_broadcast": 2})
    found.add("undone", "01/exchange")
    found.add("hint", "02/tree_broadcast", 3)
    found.add("hint", "02/tree_broadcast", 3)  # nothing new
    assert file.read_text(errors="replace").splitlines()[-2:] == ["undone 01/exchange", "hint 02/tree_broadcast 3"]
    again = progress.Progress()
    assert (again.done, again.hints) == (set(), {"02/tree_broadcast": 3})
    again.add("hint", "02/tree_broadcast", 1)  # after the last hint comes the first
    assert progress.Progress().hints == {"02/tree_broadcast": 1}


@pytest.mark.parametrize(
    "begin, done", [("done 01/exchange", {"01/exchange"}), ("done 01/exch", {"01/exch"}), ("", set())]
)
def test_a_line_without_an_end_loses_neither_itself_nor_the_next(
    begin: str, done: set[str], file: pathlib.Path
) -> None:
    file.write_text(begin)  # an editor leaves the end out, and a full disk cuts it off
    progress.Progress().add("hint", "01/exchange", 1)
    found = progress.Progress()
    assert (found.done, found.hints) == (done, {"01/exchange": 1})


def test_an_absurd_number_of_hints_is_nobodys(file: pathlib.Path) -> None:
    file.write_text(f"hint 01/exchange 2\nhint 01/exchange {'9' * 5000}\nhint 01/exchange \u0663\n")
    assert progress.Progress().hints == {"01/exchange": 2}


def test_a_write_that_a_full_disk_cuts_off_is_an_error(file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = progress.os.write
    monkeypatch.setattr(progress.os, "write", lambda to, data: write(to, data[:7]))
    with pytest.raises(Failed, match="progress cannot be written"):
        progress.Progress().add("done", "01/exchange")
    monkeypatch.undo()


def add_two(number: int) -> None:
    progress.Progress().add("done", f"01/exercise{number}")
    progress.Progress().add("hint", f"01/exercise{number}", 1)


def test_200_pairs_at_once_lose_nothing(file: pathlib.Path) -> None:
    with multiprocessing.get_context("fork").Pool(20) as pool:
        pool.map(add_two, range(200), chunksize=1)
    found = progress.Progress()
    assert len(found.done) == len(found.hints) == 200
    assert len(file.read_text().splitlines()) == 400


def test_a_file_that_cannot_be_read_is_named(file: pathlib.Path) -> None:
    file.mkdir()
    with pytest.raises(Failed, match="progress cannot be read: Is a directory"):
        progress.Progress()
