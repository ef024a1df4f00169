"""Pages and files that a reader can take in at one sitting. The limits have room, so a fix never has
to delete something else. How much there is in all has no limit.
"""

import difflib
import pathlib
import re
from collections.abc import Iterator

import pytest
from repository import CODE, FILES, LESSONS, further_of, project_includes, text

pytestmark = pytest.mark.quick

MARKDOWN = [name for name in FILES if name.endswith(".md")]
ONE_PROCESS = "05_ddp_training/single_process.cpp"
BY_HAND = "05_ddp_training/ddp_by_hand.cpp"

MOST_WORDS = {
    "README.md": 700,
    **{f"{lesson}/README.md": 1000 for lesson in LESSONS},
    "05_ddp_training/README.md": 1450,
    **{further_of(lesson): 750 for lesson in LESSONS},
    further_of(LESSONS[4]): 850,
}
MOST_COLUMNS = {"prose": 120, "code": 96, "cell": 60}
MOST_LINES = {
    **dict.fromkeys(CODE, 320),
    **{name: 480 for name in CODE if name.endswith("_solutions.hpp")},  # lists of short ones
    **{f"{lesson}/main.cpp": 70 for lesson in LESSONS},
    "05_ddp_training/main.cpp": 100,
    ONE_PROCESS: 70,
    BY_HAND: 85,
}
MOST_CHANGES = 30  # of lines, from ONE_PROCESS to BY_HAND
MOST_HEADERS = {"01_send_recv/main.cpp": 14, "03_all_reduce/main.cpp": 23, "05_ddp_training/main.cpp": 46}
MOST_NAMES = {**dict.fromkeys(LESSONS, 18), LESSONS[4]: 20}  # at the top of the folder


def without_targets(markdown: str) -> str:
    """Links as a reader sees them: only their words."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown)


def words_of_prose(page: str) -> int:
    """How many words are outside comments, code, folded parts and tables."""
    prose = re.sub(r"<!--.*?-->", "", text(page), flags=re.S)
    prose = re.sub(r"^[ \t>]*(```|~~~).*?^[ \t>]*\1[ \t]*$", "", prose, flags=re.S | re.M)
    prose = re.sub(r"<details>.*?</details>", "", prose, flags=re.S)
    prose = re.sub(r"^\s*\|.*$", "", prose, flags=re.M)
    return len(re.sub(r"<[^>]+>|[|]|-{3,}", " ", without_targets(prose)).split())


def pieces_of(page: str) -> Iterator[tuple[int, str, str]]:
    """(number of the line, kind, text) of each line of prose, line of code and cell of a table."""
    is_code = False
    for number, line in enumerate(text(page).splitlines(), 1):
        if re.match(r"[ \t>]*(```|~~~)", line):
            is_code = not is_code
        elif is_code:
            yield number, "code", line.rstrip()
        elif line.lstrip().startswith("|"):
            for cell in re.split(r"(?<!\\)\|", without_targets(line.strip().strip("|"))):
                yield number, "cell", cell.strip()
        elif not line.lstrip().startswith("<!--"):
            yield number, "prose", line


def headers_needed(start: str) -> set[str]:
    """The headers of ours that a file includes, directly or not."""
    needed: set[str] = set()
    files = [start]
    while files:
        new = {name for name in project_includes(files.pop()) if name in FILES} - needed
        needed |= new
        files += new
    return needed


def code_of(file: str) -> list[str]:
    """The file's lines without comments, includes and blank lines."""
    lines = [line.split("//")[0].rstrip() for line in text(file).splitlines()]
    return [line for line in lines if line and not line.startswith("#include")]


@pytest.mark.parametrize("page, most", MOST_WORDS.items())
def test_a_page_has_few_words(page: str, most: int) -> None:
    assert words_of_prose(page) <= most


@pytest.mark.parametrize("page", MARKDOWN)
def test_a_page_fits_the_width_that_github_shows(page: str) -> None:
    assert [
        f"{page}:{number}: {kind} of {len(piece)} columns"
        for number, kind, piece in pieces_of(page)
        if len(piece) > MOST_COLUMNS[kind]
    ] == []


@pytest.mark.parametrize("file, most", MOST_LINES.items())
def test_a_source_file_has_few_lines(file: str, most: int) -> None:
    assert len(text(file).splitlines()) <= most


def test_few_lines_make_a_program_parallel() -> None:
    difference = list(difflib.unified_diff(code_of(ONE_PROCESS), code_of(BY_HAND), n=0))
    changes = [line for line in difference[2:] if line[0] in "+-"]
    assert 0 < len(changes) <= MOST_CHANGES


@pytest.mark.parametrize("file, most", MOST_HEADERS.items())
def test_a_main_needs_few_headers(file: str, most: int) -> None:
    assert 0 < len(headers_needed(file)) <= most


@pytest.mark.parametrize("folder, most", MOST_NAMES.items())
def test_a_lesson_has_few_names_at_its_top(folder: str, most: int) -> None:
    below = [pathlib.PurePath(name).relative_to(folder) for name in FILES if name.startswith(folder + "/")]
    # ring.hpp and ring.cpp count as one name, and so does a folder.
    names = {path.stem if len(path.parts) == 1 else path.parts[0] for path in below}
    assert 0 < len(names) <= most
