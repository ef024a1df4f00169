"""The lessons' quizzes are well formed, and commands print what the answers say.

`<!-- shown by: COMMAND => REGEX -->` proves what an answer says: COMMAND is what a reader types,
and REGEX is what its output must match. docs/beyond.md has such lines too.
"""

from __future__ import annotations

import functools
import os
import re
import tempfile
from typing import NamedTuple

import pytest
from programs import BUILD, HIDE_GPUS, ROOT, Result, built, command
from repository import LESSONS, experiments_of, further_of, text

SHORTEST_REASON = 40  # characters
PROOF = re.compile(r"^<!-- *(.*?) *-->$", re.M | re.S)


class Shown(NamedTuple):
    command: str
    regex: str


def shown_in(page: str) -> list[Shown]:
    comments = [re.sub(r"\n *", " ", comment) for comment in PROOF.findall(page)]
    return [
        Shown(*found.groups()) for comment in comments if (found := re.fullmatch("shown by: (.+?) => (.+)", comment))
    ]


def visible(page: str) -> str:
    return " ".join(PROOF.sub("", page).split())


def numbers_in(regex: str) -> list[str]:
    """Those that every match contains, not those in classes, quantifiers and escapes."""
    bare = re.sub(r"\[[^\]]*\]|\{[^}]*\}", " ", regex)
    return re.findall(r"\d+(?:\.\d+)?", re.sub(r"\\[^.]", " ", bare).replace(r"\.", "."))


def place_of(number: str, prose: str) -> int | None:
    prose = re.sub(r"(\d),(?=\d{3})", r"\1", prose)  # 20,000 is 20000
    found = re.search(rf"(?<!\d){re.escape(number)}(?!\d)", prose)
    return found.start() if found else None


def numbers_not_said(shown: list[Shown], prose: str) -> list[str]:
    """The numbers that the commands must print, but that the text does not say."""
    return [number for _, regex in shown for number in numbers_in(regex) if place_of(number, prose) is None]


def in_order(shown: list[Shown], prose: str) -> bool:
    """Whether the text says what distinguishes the commands' outputs in the order of the commands,
    which is that of their comments if the text abbreviates one."""
    if all(command in prose for command, _ in shown):
        shown = sorted(shown, key=lambda each: prose.index(each.command))
    numbers = [set(numbers_in(regex)) for _, regex in shown]
    own = [each - set().union(*numbers[:i], *numbers[i + 1 :]) for i, each in enumerate(numbers)]
    places = [min(place for number in each if (place := place_of(number, prose)) is not None) for each in own if each]
    return places == sorted(places)


def quiz_of(page: str) -> str:
    found = re.search(r"^## Quiz\n(.*?)(?=^## |\Z)", text(page), re.S | re.M)
    assert found or not page.endswith("README.md"), f"{page} has no section 'Quiz'"
    return found[1] if found else ""


# A lesson's quiz, and more questions on its second page.
QUIZZES = {lesson: quiz_of(f"{lesson}/README.md") + quiz_of(further_of(lesson)) for lesson in LESSONS}
QUESTIONS = {lesson: re.split(r"^\*\*\d+\. ", quiz, flags=re.M)[1:] for lesson, quiz in QUIZZES.items()}
SHOWN = {lesson: shown_in(quiz) for lesson, quiz in QUIZZES.items()}
SHOWN["docs/beyond.md"] = shown_in(text("docs/beyond.md"))


def right_letters(answer: str) -> list[str]:
    return re.findall(r"\*\*(\w)\.\*\*", visible(answer))


@pytest.mark.quick
@pytest.mark.parametrize(
    "lesson, question",
    [
        pytest.param(lesson, question, id=f"{lesson}: {question.splitlines()[0]}")
        for lesson in LESSONS
        for question in QUESTIONS[lesson]
    ],
)
def test_a_question_has_three_options_and_an_answer_with_reasons_and_proofs(lesson: str, question: str) -> None:
    # GitHub renders a folded answer only if there are empty lines around its tags.
    parts = re.fullmatch(r"(.*?)\n\n<details><summary>Answer</summary>\n\n(.*)\n\n</details>\n(.*)", question, re.S)
    assert parts, "the answer is not folded, or there are no empty lines around the tags"
    asked, answer, proofs = parts.groups()
    assert re.findall(r"^- (\w)\) ", asked, re.M) == ["a", "b", "c"]

    right = right_letters(answer)
    assert len(right) == 1 and right[0] in "abc"
    items = re.findall(r"^- ([abc])\)(?:, ([abc])\))?(.*(?:\n(?!- |$).+)*)", answer, re.M)
    reasons = [(letter, why) for one, other, why in items for letter in (one, other) if letter]
    assert {letter for letter, _ in reasons} == set("abc") - {right[0]}, "explain wrong options"
    for letter, why in reasons:
        assert len(why) >= SHORTEST_REASON, f"says too little about {letter})"

    typed = [
        code
        for code in re.findall("`([^`]+)`", visible(answer))
        if re.match(r"mpirun -|build/|python3 |for \w+ in |\./learn break ", code)
    ]
    assert typed, "no command shows the answer"
    proved = [shown.command for shown in SHOWN[lesson]]
    for code in typed:
        assert code in proved or code.startswith("./learn break "), f"is not 'shown by' {code}"
    assert numbers_not_said(shown_in(proofs), visible(answer)) == []
    assert in_order(shown_in(proofs), visible(answer)), "numbers of another command"


@pytest.mark.quick
@pytest.mark.parametrize("lesson", LESSONS)
def test_a_quiz_is_complete(lesson: str) -> None:
    quiz = QUIZZES[lesson]
    assert quiz_of(f"{lesson}/README.md").count("<details>") == 3
    assert quiz.count("<details>") == quiz.count("</details>") == len(QUESTIONS[lesson])
    assert set(right_letters(quiz)) == set("abc")
    assert len(SHOWN[lesson]) == quiz.count("<!--") >= 2, "a comment is not 'shown by: ... => ...'"


@pytest.mark.quick
def test_beyond_says_the_numbers_that_its_commands_print() -> None:
    page = text("docs/beyond.md")
    assert len(SHOWN["docs/beyond.md"]) == page.count("<!-- shown by: ") >= 3
    assert numbers_not_said(SHOWN["docs/beyond.md"], visible(page)) == []


@pytest.mark.quick
@pytest.mark.parametrize("page", [*QUIZZES.values(), text("docs/beyond.md")], ids=[*LESSONS, "docs/beyond.md"])
def test_experiments_that_answers_name_exist(page: str) -> None:
    named = re.findall(r"\./learn break ([1-5]) ([a-z0-9-]+)", visible(page))
    assert named
    for lesson, experiment in named:
        assert experiment in experiments_of(LESSONS[int(lesson) - 1])


@functools.cache
def printed_by(typed: str) -> Result:
    """What a command prints on the CPU, where every message goes through MPI. The folder has no
    .learn/ with measurements of earlier commands. $PYTHON names a Python that may have PyTorch."""
    typed = re.sub("^python3", os.environ.get("PYTHON", "python3"), typed)
    with tempfile.TemporaryDirectory() as folder:
        for name, target in (("build", BUILD), ("tools", ROOT / "tools")):
            os.symlink(target, f"{folder}/{name}")
        return command(typed, folder, limit=60, **HIDE_GPUS)


@built
@pytest.mark.parametrize(
    "shown", [pytest.param(shown, id=f"{page}: {shown.command}") for page in SHOWN for shown in SHOWN[page]]
)
def test_a_command_prints_what_the_answer_says(shown: Shown) -> None:
    result = printed_by(shown.command)
    if "No module named 'torch'" in result.err:
        pytest.skip("PyTorch is not installed")
    assert result.status == 0, result.out + result.err
    assert re.search(shown.regex, result.out), result.out
