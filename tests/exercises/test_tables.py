"""The tables of exercises (tools/exercises/NN_x/exercises.toml) and the files of exercises belong together."""

import re
import sys

import pytest

from commands import ROOT

sys.path.insert(0, str(ROOT / "tools/exercises"))
import exercises  # noqa: E402

pytestmark = pytest.mark.quick
EXERCISES = [each for lesson in exercises.LESSONS for each in exercises.exercises_of(lesson)]


@pytest.mark.parametrize("exercise", EXERCISES, ids=[each.name for each in EXERCISES])
def test_an_exercise_is_complete(exercise: exercises.Exercise) -> None:
    assert exercise.kind in ("base", "advanced", "nccl", "numbers", "finale")
    assert exercise.file.exists()
    assert exercise.hints and all(exercise.hints) and exercise.what
    pages = "".join(page.read_text() for page in (ROOT / exercise.folder).rglob("*.md"))
    assert re.search(rf"\((?:\.\./)*exercise/{exercise.file.name}\)", pages), "no page of the lesson links to it"
    if exercise.kind == "numbers":
        assert exercise.answers and {*exercise.hints_if} <= {*exercise.answers}
    else:
        assert exercise.function and not exercise.answers
        first = exercises.known_solutions(exercise)[0]
        assert (first.name, first.check) == ("reference", "done")


def test_every_file_of_an_exercise_has_a_table() -> None:
    files = {path for path in (ROOT / "tools/exercises").glob("*/*_solutions.hpp")}
    assert files == {each.solutions for each in EXERCISES if each.function}
    stubs = {
        path
        for lesson in exercises.LESSONS
        for path in (ROOT / lesson / "exercise").iterdir()
        if path.suffix == ".txt" or path.suffix == ".hpp" and path.read_text().startswith("// Exercise: ")
    }
    # A reader may have changed a stub's first line.
    assert stubs <= {each.file for each in EXERCISES}
