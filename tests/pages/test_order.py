"""A reader writes an exercise before a page shows our code for it (Build it yourself, Compare with ours)."""

import re
import sys

import pytest
from page import blocks_of
from programs import ROOT
from repository import LESSONS, PAGES, text

sys.path.append(str(ROOT / "tools/exercises"))
import exercises  # noqa: E402

pytestmark = pytest.mark.quick

SECTIONS = [
    "The problem",
    "The idea",
    "Run it",
    "Build it yourself",
    "Compare with ours",
    "In PyTorch, and in NCCL",
    "Cost",
    "Break it",
    "Quiz",
    "Takeaways",
    "If it hangs or fails here",
]
SHORTEST = 20  # characters of a statement that gives something away, without spaces
MOST_POINTERS = 5


def part(page: str, first: str, last: str) -> str:
    """The text of a lesson's page from the heading of one section to that of another."""
    return page[page.index(f"\n## {first}\n") : page.index(f"\n## {last}\n")]


def code_in(markdown: str) -> str:
    return "\n".join(re.findall(r"^ *```\w*\n(.*?)^ *```$", markdown, re.S | re.M))


def statements(code: str) -> set[str]:
    """What semicolons and braces separate, without comments and spaces."""
    code = re.sub(r"//.*|/\*.*?\*/|^#.*", "", code, flags=re.M)
    return {each for each in re.split("[;{}]", re.sub(r"\s", "", code)) if len(each) >= SHORTEST}


def answers(exercise: exercises.Exercise) -> set[str]:
    """The statements of the known right solutions, and of the listing that the page has under 'Compare with
    ours', without those of the stub."""
    listing = code_in(part(text(f"{exercise.folder}/README.md"), SECTIONS[4], SECTIONS[5]))
    right = "".join(each.text for each in exercises.known_solutions(exercise) if each.check == "done")
    return statements(listing + right) - statements(exercise.file.read_text())


def before_the_exercise(page: str, exercise: exercises.Exercise) -> str:
    """What a reader of the page sees before being asked: all of it, if the page belongs to what comes first."""
    if page == f"{exercise.folder}/README.md":
        return text(page).split(f"\n## {SECTIONS[3]}\n")[0]
    link = f"exercise/{exercise.name}.hpp)"
    if page.startswith(exercise.folder):  # a second page, after the lesson's
        return text(page).split(link)[0] if link in text(page) else ""
    return text(page) if page == "README.md" or page.split("/")[0] in LESSONS[: exercise.lesson - 1] else ""


def given_away(markdown: str, solution: set[str]) -> list[str]:
    return sorted(statements(code_in(markdown)) & solution)


EXERCISES = [each for lesson in LESSONS for each in exercises.exercises_of(lesson) if not each.answers]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda each: each.name)
def test_no_page_shows_our_code_before_it_asks_for_the_readers(exercise: exercises.Exercise) -> None:
    solution = answers(exercise)
    assert solution
    assert {page: shown for page in PAGES if (shown := given_away(before_the_exercise(page, exercise), solution))} == {}


def test_the_first_page_shows_no_code_of_an_exercise() -> None:
    assert re.findall(r"^.*[;{]$", code_in(text("README.md")), re.M) == []


def test_a_listing_above_the_exercise_would_be_found() -> None:
    for lesson in LESSONS:
        page = text(f"{lesson}/README.md")
        listing = part(page, SECTIONS[4], SECTIONS[5])
        moved = page.replace(f"\n## {SECTIONS[3]}\n", listing + f"\n## {SECTIONS[3]}\n")
        exercise = exercises.exercises_of(lesson)[-1]
        assert given_away(moved.split(f"\n## {SECTIONS[3]}\n")[0], answers(exercise)), lesson


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_has_its_sections_in_order(lesson: str) -> None:
    titles = re.findall("^## (.*)$", text(f"{lesson}/README.md"), re.M)
    assert [title for title in titles if title in SECTIONS] == SECTIONS


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_comparison_has_a_listing_and_few_pointers(lesson: str) -> None:
    page = f"{lesson}/README.md"
    comparison = part(text(page), SECTIONS[4], SECTIONS[5])
    assert any(block.language == "cpp" and "\n".join(block.lines) in comparison for block in blocks_of(page))
    assert "Learners' versions often have" in " ".join(comparison.split())
    assert 1 <= len(re.findall(r"^\d+\. \[", comparison, re.M)) <= MOST_POINTERS
