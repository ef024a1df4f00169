"""What pages quote and link to exists: code, differences of files, headings, statuses."""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Iterable, Iterator

import pytest
from page import Block, blocks_of
from programs import ROOT
from repository import CODE, FILES, LESSONS, PAGES, experiments_of, further_of, text

pytestmark = pytest.mark.quick

# "// FILE, FUNCTION" or "// FILE, FUNCTION: words"; FILE is a path from the repository's root.
ORIGIN = r"\s*// ([\w/.]+\.[ch]pp), ([\w:~]+?)(: .*)?"


def stripped(lines: list[str]) -> list[str]:
    return [line.strip() for line in lines if line.strip()]


def quotes_of(block: Block) -> Iterator[tuple[str, list[str]]]:
    """(origin, lines) of each quote in a block."""
    origins = [i for i, line in enumerate(block.lines) if re.fullmatch(ORIGIN, line)]
    for first, end in zip([0, *origins[1:]], [*origins[1:], len(block.lines)]):
        yield block.lines[first], stripped(block.lines[first + 1 : end])


QUOTES = [
    pytest.param(origin, lines, id=f"{block.place}: {origin}")
    for page in PAGES
    for block in blocks_of(page)
    if block.language == "cpp"
    for origin, lines in quotes_of(block)
]
DIFFS = [
    pytest.param(page, block, id=block.place) for page in PAGES for block in blocks_of(page) if block.language == "diff"
]


def definitions(file: str, name: str) -> Iterator[list[str]]:
    """The lines of each definition of `name`. clang-format, which has formatted the file, puts the
    closing brace into the column where the definition begins, unless all is on one line."""
    source = text(file).splitlines()
    for first, line in enumerate(source):
        begins = re.match(rf"( *)(?![ /])(.*[^\w:.>])?{name}(<.*>)?\(", line)
        if not begins:
            continue
        last = next(i for i in range(first, len(source)) if source[i].endswith(("{", "}", ";")))
        if source[last].endswith("{"):
            last = next(i for i in range(last, len(source)) if source[i].startswith(begins[1] + "}"))
        elif source[last].endswith(";"):
            continue  # a declaration or a call
        yield stripped(source[first : last + 1])


def contains(body: list[str], pieces: list[list[str]]) -> bool:
    """Whether the body has all pieces in this order, each as a run of consecutive lines."""
    start = 0
    for piece in pieces:
        found = [i for i in range(start, len(body)) if body[i : i + len(piece)] == piece]
        if not piece or not found:
            return False
        start = found[0] + len(piece)
    return True


@pytest.mark.parametrize("origin, lines", QUOTES)
def test_quoted_code_is_in_the_function_that_the_quote_names(origin: str, lines: list[str]) -> None:
    named = re.fullmatch(ORIGIN, origin)
    assert named, "a quote begins with // FILE, FUNCTION"
    # A line "// ..." stands for lines that are left out.
    pieces = [stripped(piece.splitlines()) for piece in "\n".join(lines).split("// ...")]
    assert any(contains(body, pieces) for body in definitions(named[1], named[2]))


@pytest.mark.parametrize("page, block", DIFFS)
def test_a_quoted_difference_is_one_of_the_files(page: str, block: Block) -> None:
    """The page names `diff ONE OTHER`. Lines with - are only in ONE, lines with + only in OTHER."""
    names = re.findall(r"`diff ([\w/.]+) ([\w/.]+)`", text(page))[0]
    for line in block.lines:
        held = [line[1:].strip() in text(name) for name in names]
        assert held == {"-": [True, False], "+": [False, True]}[line[0]], line
    assert len(block.lines) > 8


def test_pages_quote_code() -> None:
    assert len(QUOTES) >= 10 and DIFFS


def anchors(name: str | pathlib.Path) -> list[str]:
    """GitHub's anchors of headings: lower case, hyphens for spaces, no punctuation."""
    headings = re.findall("^#+ (.*)$", text(name), re.M)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


MARKDOWN = [name for name in FILES if name.endswith(".md")]


def links_of(page: str) -> list[tuple[str, str, str, str]]:
    """(words, path, heading, function) of each link to our files: [words](path#heading), optionally
    followed by: , `function`"""
    prose = re.sub(r"```.*?```", "", text(page), flags=re.S)
    links = re.findall(r"\[([^\]\[]*)\]\(([^)\s#]*)#?([^)\s]*)\)(?:, `(\w+)`)?", prose)
    return [link for link in links if "://" not in link[1]]


def linked(page: str, path: str) -> pathlib.Path:
    return ((ROOT / page).parent / path).resolve() if path else ROOT / page


@pytest.mark.parametrize("page", MARKDOWN)
def test_links_lead_to_files(page: str) -> None:
    links = links_of(page)
    assert [path for _, path, _, _ in links if not linked(page, path).exists()] == []
    assert [link for link in links if link[0].endswith("pp") and not link[1].endswith(link[0])] == []


@pytest.mark.parametrize("page", MARKDOWN)
def test_links_lead_to_headings(page: str) -> None:
    assert [
        f"{path}#{heading}"
        for _, path, heading, _ in links_of(page)
        if heading and heading not in anchors(linked(page, path))
    ] == []


def test_every_page_of_docs_is_linked_from_another_page() -> None:
    links = {(ROOT / page, linked(page, path)) for page in MARKDOWN for _, path, _, _ in links_of(page)}
    found = {to for page, to in links if page != to}
    assert [page for page in MARKDOWN if page.startswith("docs/") and ROOT / page not in found] == []


@pytest.mark.parametrize("page", MARKDOWN)
def test_a_function_that_is_named_after_a_link_is_in_its_file(page: str) -> None:
    assert [
        f"{path}, {function}"
        for _, path, _, function in links_of(page)
        if function and not re.search(rf"\b{function}\b", text(linked(page, path)))
    ] == []


def test_pages_have_links() -> None:
    assert [page for page in MARKDOWN if page.endswith("README.md") and len(links_of(page)) < 5] == []


@pytest.mark.parametrize("lesson", LESSONS)
def test_pages_list_the_experiments_of_their_lesson(lesson: str) -> None:
    """Two are in the README, the others on the second page."""
    sections = [
        re.findall("^## (?:Break it|More experiments)\n(.*?)(?:^## |\\Z)", text(page), re.S | re.M)[0]
        for page in (f"{lesson}/README.md", further_of(lesson))
    ]
    listed = [re.findall(r"^- `([a-z0-9-]+)`:", section, re.M) for section in sections]
    assert len(listed[0]) == 2
    assert sorted(sum(listed, [])) == sorted(experiments_of(lesson)) != []


LITERAL = r'"((?:\\.|[^"\\\n])*)"'  # of C++


@functools.cache
def our_names() -> frozenset[str]:
    """All words of our code, without comments and strings of C++, and the names of our files."""
    code = "".join(
        re.sub(rf"//.*|{LITERAL}", "", text(name)) if name.endswith("pp") else text(name)
        for name in FILES
        if name.endswith((".cpp", ".hpp", ".py"))
    )
    return frozenset([*re.findall(r"\w+", code), *(pathlib.Path(name).stem for name in FILES)])


# Names that are not ours, and that our code does not use: PyTorch's, and the standard library's.
NOT_OURS = {
    "MixedPrecisionPolicy",
    "convert_sync_batchnorm",
    "get_worker_info",
    "set_requires_gradient_sync",
    "set_sync_debug_mode",
}
NOT_OURS |= {"start_debug_server", "use_deterministic_algorithms"}
# The same of comments, and names of settings: clang-tidy's, CMake's, checkpoints'.
NOT_OURS |= {"batch_sampler", "compute_bucket_assignment_by_size", "found_inf", "get_linear_schedule_with_warmup"}
NOT_OURS |= {"get_cosine_schedule_with_warmup", "GELU"}
NOT_OURS |= {"kaiming_uniform_", "lr_scheduler", "multi_tensor_apply", "num_workers", "avx_mathfun"}
NOT_OURS |= {"NOLINTNEXTLINE", "dist_exact_float_sources", "exp_avg"}
CALL_OR_SCOPE = r"\w+(?=\()|(?<=::)\w+"
NAME = rf"{CALL_OR_SCOPE}|\b[a-z]+_[a-z_]+\b"


def unknown(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name not in our_names() | NOT_OURS})


@pytest.mark.parametrize("page", MARKDOWN)
def test_a_function_that_a_page_names_exists(page: str) -> None:
    prose = re.sub(r"```.*?```", "", text(page), flags=re.S)
    assert unknown(name for code in re.findall("`([^`\n]+)`", prose) for name in re.findall(CALL_OR_SCOPE, code)) == []


def test_a_function_that_a_hint_or_docstring_names_exists() -> None:
    tables = [name for name in FILES if name.endswith("exercises.toml")]
    hints = "".join(map(text, [*tables, "tools/exercises/hang_hints.py", "tools/exercises/compile_errors.py"]))
    assert unknown(re.findall(NAME, hints)) == []
    docstrings = "".join(
        found for name in FILES if name.endswith(".py") for found in re.findall(r'"""(.*?)"""', text(name), re.S)
    )
    named = [name for code in re.findall("`([^`\n]+)`", docstrings) for name in re.findall(CALL_OR_SCOPE, code)]
    assert unknown(named) == []


def test_a_function_that_a_comment_or_the_hint_of_a_check_names_exists() -> None:
    words = {name: re.findall("//.*", text(name)) for name in CODE if name.startswith(("0", "common/"))}
    for name in CODE:
        if name.startswith("tools/exercises/") and name.endswith("_checks.cpp"):
            words[name] = re.findall(LITERAL, re.sub("^#include.*", "", text(name), flags=re.M))
    named = {name: unknown(re.findall(NAME, "\n".join(found))) for name, found in words.items()}
    assert {name: wrong for name, wrong in named.items() if wrong} == {}
    assert all(words.values()) and len(words) > 150


# Where a value is defined, and the pages that say it in words.
HANG = ("tools/watch/report/watch_thread.hpp", "kHangStatus = 86;")
STOPPED = ("05_ddp_training/trainer/guards.hpp", "kStoppedOnRequest = 75;")
FIRST_BUCKET = ("05_ddp_training/data_parallel/bucket_plan.hpp", "first_bytes = 1 << 20;")
BUCKET = ("05_ddp_training/data_parallel/bucket_plan.hpp", " bytes = 1 << 20;")
NCCL_BUCKET = ("05_ddp_training/trainer/parallelism.cpp", "bucket_cap_mb = 25;")
LAYERS = ("05_ddp_training/trainer/mlp_plan.hpp", "widths_{784, 512, 512, 512, 10};")


@pytest.mark.parametrize(
    "value, page, words",
    [
        (HANG, "docs/cheat_sheet.md", "| 86 | a hang "),
        (STOPPED, "docs/cheat_sheet.md", "| 75 | stopped on request"),
        (BUCKET, "05_ddp_training/README.md", "flat tensors of about 1 MiB here and 25 in PyTorch"),
        (BUCKET, "05_ddp_training/README.md", "| `--bucket-cap-mb`, default 1 |"),
        (FIRST_BUCKET, "05_ddp_training/README.md", "by default 25, and 1 for the first |"),
        (NCCL_BUCKET, "05_ddp_training/trainer/options.hpp", "25 with --backend nccl"),
        (BUCKET, "05_ddp_training/advanced/sharding.md", "This model has only three buckets"),
        (LAYERS, "05_ddp_training/advanced/sharding.md", "This model has only three buckets"),
        # The times of "See the overlap" and its picture: run and record them again.
        (BUCKET, "05_ddp_training/README.md", "of it hidden, as on a link of 1 Gbit/s"),
    ],
)
def test_a_value_that_a_page_names_is_the_one_in_the_code(value: tuple[str, str], page: str, words: str) -> None:
    file, definition = value
    assert definition in text(file) and words in text(page)
