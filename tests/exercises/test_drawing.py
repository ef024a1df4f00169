"""The messages of a wrong solution beside ours: which run is shown, what its messages contain, and where the first
difference is."""

import json
import pathlib
import re
import sys

import pytest
from browser import Browser
from programs import BROWSER, ROOT, built, command, runs

pytestmark = built

sys.path.insert(0, str(ROOT / "tools/exercises"))
import hang_hints  # noqa: E402
import judge  # noqa: E402
import message_page  # noqa: E402
import message_table  # noqa: E402
from job import Run  # noqa: E402


def drawn(folder: pathlib.Path, solution: str, smallest: int = 2) -> message_table.Run:
    lesson = {"ring_": 3, "tree_": 2, "scatt": 2, "excha": 1, "ring_shift": 1, "ping_": 1}
    number = lesson.get(solution.split("/")[0], lesson.get(solution[:5]))
    runs(
        4, f"../tests/solutions_0{number} --solution {solution} --draw {folder}/run --smallest {smallest} --timeout 30"
    )
    run = message_table.run_in(folder / "run")
    assert run is not None
    return run


def rows(run: message_table.Run) -> list[str]:
    return [re.sub(" +", " ", line).strip() for line in message_table.table(run, 0)[1:]]


RING = [
    (
        "ring_reduce_scatter/chunk-off-by-one",
        ["step rank 0 sends rank 1 sends", "1 yours >chunk 0: a< chunk 1: b", "ours chunk 1: a chunk 0: b"],
    ),
    (
        "ring_reduce_scatter/same-chunk-again",
        [
            "step rank 0 sends rank 1 sends rank 2 sends",
            "1 chunk 2: a chunk 0: b chunk 1: c",
            "2 yours >chunk 2: a< chunk 0: b chunk 1: c",
            "ours chunk 1: ac chunk 2: ab chunk 0: bc",
        ],
    ),
    (
        "ring_reduce_scatter/divides",
        [
            "step rank 0 sends rank 1 sends",
            "1 chunk 1: a chunk 0: b",
            "end yours >chunk 0: ab/2< chunk 1: ab/2",
            "ours chunk 0: ab chunk 1: ab",
        ],
    ),
    (
        "ring_reduce_scatter/no-remainder",
        [
            "step rank 0 sends rank 1 sends",
            "1 yours >part of chunk 0: a< part of chunk 0: b",
            "ours chunk 1: a chunk 0: b",
        ],
    ),
    (
        "ring_reduce_scatter/leftward",
        [
            "step rank 0 sends rank 1 sends rank 2 sends",
            "1 yours >chunk 1: a -> rank 2< chunk 2: b -> rank 0 chunk 0: c -> rank 1",
            "ours chunk 2: a chunk 0: b chunk 1: c",
            "2 yours chunk 2: ab -> rank 2 chunk 0: bc -> rank 0 chunk 1: ac -> rank 1",
            "ours chunk 1: ac chunk 2: ab chunk 0: bc",
        ],
    ),
    (
        "ring_all_reduce/copies-padding",
        [
            "step rank 0 sends rank 1 sends",
            "1 yours >chunk 1: a, 1 zero< chunk 0: b",
            "ours chunk 1: a chunk 0: b",
            "2 yours chunk 0: ab/2 chunk 1: ab/2, 1 zero",
            "ours chunk 0: ab/2 chunk 1: ab/2",
        ],
    ),
    (
        "ring_all_reduce/divides-twice",
        [
            "step rank 0 sends rank 1 sends",
            "1 chunk 1: a chunk 0: b",
            "2 chunk 0: ab/2 chunk 1: ab/2",
            "end yours >chunks 0 1: ab/4< chunks 0 1: ab/4",
            "ours chunks 0 1: ab/2 chunks 0 1: ab/2",
        ],
    ),
]

OTHERS = [
    ("tree_broadcast/flat", ["round yours ours", "1 0 -> 1 0 -> 1", "2 0 -> 2 0 -> 2 >1 -> 3<", "3 0 -> 3 -"]),
    ("tree_broadcast/from-rank-0", ["round yours ours", "1 >0 -> 1: a< 1 -> 0"]),
    ("tree_broadcast/rounds-up", ["round yours ours", "1 >0 -> 1: a0 and 3 others< 0 -> 1"]),
    (
        "scatter_all_gather/whole-tensor-in-scatter",
        [
            "step rank 0 sends rank 1 sends",
            "1 yours >chunks 0 1: a< chunk 1: a",
            "ours chunk 1: a chunk 1: a",
            "2 chunk 0: a -",
        ],
    ),
    ("ring_shift/leftward", ["round yours ours", "1 >0 -> 2: a< 1 -> 0: b 2 -> 1: c 0 -> 1: a 1 -> 2: b 2 -> 0: c"]),
    (
        "exchange/announces-length",
        [
            "round yours ours",
            "1 >0 -> 1: 2 unknown numbers< 1 -> 0: 2 unknown numbers 0 -> 1: a 1 -> 0: b",
            "2 0 -> 1: a 1 -> 0: b -",
        ],
    ),
    (
        "ping_pong/burst",
        [
            "round yours ours",
            "1 0 -> 1: 4 bytes 0 -> 1: 4 bytes",
            "2 >0 -> 1: 4 bytes< 1 -> 0: 4 bytes",
            "3 1 -> 0: 4 bytes 0 -> 1: 4 bytes",
            "4 1 -> 0: 4 bytes 1 -> 0: 4 bytes",
        ],
    ),
]


@pytest.mark.parametrize("solution, table", RING)
def test_the_smallest_ring_that_is_not_ours_is_shown(tmp_path: pathlib.Path, solution: str, table: list[str]) -> None:
    run = drawn(tmp_path, solution)
    assert not run["same"]
    assert rows(run) == table


@pytest.mark.parametrize("solution, table", OTHERS)
def test_the_smallest_run_that_is_not_ours_is_shown(tmp_path: pathlib.Path, solution: str, table: list[str]) -> None:
    run = drawn(tmp_path, solution)
    assert not run["same"]
    assert rows(run) == table


def test_a_right_solution_is_shown_on_all_ranks_as_on_the_page(tmp_path: pathlib.Path) -> None:
    run = drawn(tmp_path, "ring_all_reduce/reference")
    assert run["same"]
    page = (ROOT / "03_all_reduce/README.md").read_text()
    for cells in re.findall(r"^\| (\d) \| (.*) \| (?:adds|keeps) ", page, re.M):
        step, messages = int(cells[0]), cells[1].replace("*", "").split(" | ")
        sent = [rank["sends"][step - 1]["text"].replace("/4", "") for rank in run["yours"]]
        assert sent == messages


@pytest.mark.parametrize(
    "solution",
    [
        "tree_broadcast/by-halves",
        "tree_broadcast/nonblocking",
        "scatter_all_gather/nonblocking",
        "exchange/persistent",
        "ping_pong/nonblocking",
    ],
)
def test_what_only_looks_different_is_not_shown(tmp_path: pathlib.Path, solution: str) -> None:
    assert drawn(tmp_path, solution)["same"]


def test_a_wide_table_keeps_the_rank_that_is_marked() -> None:
    right = [
        {"has": "", "left": [], "sends": [{"to": (rank + 1) % 7, "row": 1, "text": f"chunk {rank}: {'abcdefg'[rank]}"}]}
        for rank in range(7)
    ]
    wrong = json.loads(json.dumps(right))
    wrong[5]["sends"][0]["text"] = "chunk 0: a"
    run = {
        "yours": wrong,
        "ours": right,
        "ranks": 7,
        "lengths": [7] * 7,
        "root": 0,
        "chunks": True,
        "divides_anywhere": False,
        "rounds": False,
        "same": False,
    }
    for width in 60, 80, 200:
        lines = message_table.table(run, width)
        assert max(map(len, lines[1:-1])) <= width
        assert lines[-1].startswith("    (no room for ") == (width < 200)
        assert sum(">chunk 0: a<" in line for line in lines) == 1
    assert "rank 6 sends" in message_table.table(run, 200)[1]


def test_the_answer_shows_the_messages_before_what_was_printed(tmp_path: pathlib.Path) -> None:
    verdict = "wrong on 4 ranks: it must [values]\n  rank 0: element 0\nhint: think.\ncan be drawn\n"
    run = Run("4", 1, verdict, "[1,0]<stdout>:here\n", "", hang_hints.places("0 0\n"))
    different = drawn(tmp_path, "ring_all_gather/off-by-one")
    lines = judge.answer_to(run, different).splitlines()
    assert lines[:3] == ["wrong on 4 ranks: it must [values]", "  rank 0: element 0", "hint: think."]
    assert lines[3].startswith("  your messages and ours on 2 ranks")
    assert lines[-2:] == ["the last that it printed:", "  rank 0: here"]
    assert judge.answer_to(run, {**different, "same": True}).splitlines()[3] == "the last that it printed:"


def test_the_page_steps_to_the_first_difference(tmp_path: pathlib.Path) -> None:
    if BROWSER is None:
        pytest.skip("needs chromium")
    message_page.write_page(
        tmp_path / "page.html", "ring_reduce_scatter", drawn(tmp_path, "ring_reduce_scatter/same-chunk-again")
    )
    with Browser(limit=120) as browser:
        browser.open(f"file://{tmp_path}/page.html")
        says = "document.querySelector('.player output').textContent"
        assert browser.run(says) == "Step 1 of 2: the same messages."
        browser.run("document.querySelectorAll('.player button')[1].click()")
        assert browser.run(says) == (
            "Step 2 of 2: in yours, rank 0 sends chunk 2: a to rank 1; in ours, rank 0 sends chunk 1: ac to rank 1."
        )
        assert browser.run("document.querySelectorAll('.player text.unlike').length") == 6
        browser.run("document.querySelectorAll('.player button')[1].click()")
        assert browser.run(says).startswith("In the end, rank 0 has something else")
        assert browser.of("Runtime.exceptionThrown") == []


def test_learn_check_draws_one_exercise_only() -> None:
    result = command(f"{ROOT}/learn check 3 --draw")
    assert (result.status, result.err) == (2, "error: check: --draw needs the name of one exercise\n")
