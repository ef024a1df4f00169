"""The small tasks, whose answers are numbers: each answer is what its subject makes of it, worked out here."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Sequence

import pytest
from test_tables import EXERCISES, exercises

Judged = Callable[..., tuple[int, str]]

pytestmark = pytest.mark.quick
TASKS = [each for each in EXERCISES if each.kind == "numbers"]
HINTS_IF = [
    (task, question, number) for task in TASKS for question in task.hints_if for number in task.hints_if[question]
]
ONE = next(task for task in TASKS if task.name == "which_chunk")  # all of them are judged by the same code
BEFORE = 33  # columns that ./learn check writes before the first line of an answer; 2 before the others


def tree(ranks: int, root: int = 0) -> list[tuple[int, int, int]]:
    """(round, source, destination) of each message: who has the tensor sends it, nearest relative rank first."""
    messages: list[tuple[int, int, int]] = []
    have = 1
    while have < ranks:
        number = 1 + max((round for round, _, _ in messages), default=0)
        new = [(number, (root + v) % ranks, (root + v + have) % ranks) for v in range(min(have, ranks - have))]
        messages += new
        have += len(new)
    return messages


def who_has_it() -> dict[str, int]:
    return {
        **{
            f"of 6 ranks, have the tensor after round {k}": 1 + sum(round <= k for round, _, _ in tree(6))
            for k in (2, 3)
        },
        "on 9 ranks, rounds of the tree": max(round for round, _, _ in tree(9)),
        "on 9 ranks, messages of the tree, in all": len(tree(9)),
        "on 9 ranks, rounds of the flat broadcast": len(set(range(9)) - {0}),
    }


def whose_partner() -> dict[str, int]:
    messages = tree(7, root=2)
    return {
        "relative rank of rank 1": [2, 3, 4, 5, 6, 0, 1].index(1),
        "rank 0 receives in round": next(round for round, _, to in messages if to == 0),
        "rank 0 receives from rank": next(source for _, source, to in messages if to == 0),
        "rank 3 sends in round 2 to rank": next(to for round, source, to in messages if (round, source) == (2, 3)),
        "messages that rank 5 sends": sum(source == 5 for _, source, _ in messages),
    }


def ring(tensors: list[list[int]]) -> list[list[int | None]]:
    """The reduce-scatter of one number per chunk, whose result it leaves in `tensors`: the chunks that rank r
    sends, by step. Chunk c starts at rank c + 1, and each rank passes it on, with its own number added."""
    ranks = len(tensors)
    sent: list[list[int | None]] = [[None] * (ranks - 1) for _ in tensors]
    for chunk in range(ranks):
        for step in range(ranks - 1):
            source, to = (chunk + 1 + step) % ranks, (chunk + 2 + step) % ranks
            sent[source][step] = chunk
            tensors[to][chunk] += tensors[source][chunk]
    return sent


def which_chunk() -> dict[str, int | None]:
    sent = ring([[0] * 5 for _ in range(5)])
    tensors = [[10**rank] * 5 for rank in range(5)]
    ring(tensors)
    return {
        **{f"rank {rank}, step {step}, sends chunk": sent[rank][step - 1] for rank, step in ((1, 2), (4, 3), (0, 4))},
        "rank 2 completes chunk": tensors[2].index(11111),
    }


def where_is_the_sum() -> dict[str, int]:
    tensors = [[10**rank * (index + 1) for index in range(4)] for rank in range(4)]
    ring(tensors)
    return {f"rank {rank}, index {index}": tensors[rank][index] for rank, index in ((1, 1), (3, 0), (1, 2), (1, 0))}


def how_many_floats() -> dict[str, int]:
    def messages(ranks: int) -> int:  # of rank 0, in both halves
        return 2 * len(ring([[0] * ranks for _ in range(ranks)])[0])

    return {
        "4 ranks, naive, floats that rank 0 sends": len(range(1, 4)) * 12,
        "4 ranks, ring, floats in one message": 12 // 4,
        "4 ranks, ring, messages that each rank sends": messages(4),
        "4 ranks, ring, floats that each rank sends": messages(4) * 12 // 4,
        "6 ranks, ring, floats that each rank sends": messages(6) * 12 // 6,
    }


def by_hand_step() -> dict[str, float]:
    weights, gradients = [10, 20, 30], [[1, -2, 4], [3, 0, -8]]
    sums = [sum(column) for column in zip(*gradients)]
    averages = [each / 2 for each in sums]

    def step(gradient: Sequence[float]) -> list[float]:
        return [weight - 0.5 * g for weight, g in zip(weights, gradient)]

    own = [step(gradient) for gradient in gradients]
    return {
        "average gradient 0": averages[0],
        "average gradient 2": averages[2],
        "rank 0, new weight 0": step(averages)[0],
        "rank 1, new weight 2": step(averages)[2],
        "with the sum, rank 0, new weight 0": step(sums)[0],
        "with own gradients, new weights 2 of the two ranks differ by": abs(own[0][2] - own[1][2]),
    }


def which_bucket() -> dict[str, int]:
    sizes = [32, 16, 128, 32, 64, 8]
    buckets: list[list[int]] = [[]]
    for gradient in reversed(range(6)):
        if sum(sizes[each] for each in buckets[-1]) >= 100:
            buckets.append([])
        buckets[-1].append(gradient)
    held = [sum(sizes[each] for each in bucket) for bucket in buckets]
    return {
        "gradient that is ready first": buckets[0][0],
        "bucket 0 starts after gradient": buckets[0][-1],
        "bytes of bucket 0": held[0],
        "bytes of bucket 1": held[1],
        "number of buckets": len(buckets),
        "bytes of the last bucket": held[-1],
    }


@pytest.fixture
def judged(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Judged:
    """judged(TASK, {QUESTION: WHAT IS TYPED}, CHANGE): the verdict about the task's file in which that is typed,
    in place of what the reader has typed, and whose bytes CHANGE changes."""
    monkeypatch.setattr(exercises, "ROOT", tmp_path)

    def judge(
        task: exercises.Exercise, typed: dict[str, str], change: Callable[[bytes], bytes] = lambda data: data
    ) -> tuple[int, str]:
        text = (exercises.HERE.parents[1] / task.file.relative_to(tmp_path)).read_text(encoding="utf-8-sig")
        for question in task.answers:
            text, found = re.subn(
                rf"^{re.escape(question)}:.*$", f"{question}: {typed.get(question, '?')}", text, flags=re.M
            )
            assert found == 1, question
        task.file.parent.mkdir(parents=True, exist_ok=True)
        task.file.write_bytes(change(text.encode()))
        status, answer = exercises.judge_numbers(task)
        first, *others = answer.splitlines()
        assert len(first) <= 96 - BEFORE and all(len(line) <= 94 for line in others), answer
        return status, re.sub(r"\n(?!hint: )", " ", answer)

    return judge


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_ours_replaces_the_numbers_and_nothing_else(judged: Judged, task: exercises.Exercise) -> None:
    typed = {question: "-99" for question in task.answers}
    assert judged(task, typed)[0] == 1
    before = task.file.read_text()
    assert "-99" in before
    assert exercises.take(task).startswith(f"{task.file.name} is ours now")
    assert exercises.judge_numbers(task) == (0, "done")
    after = task.file.read_text()
    for question in task.answers:
        before, after = (re.sub(rf"^{re.escape(question)}:.*$", "", text, flags=re.M) for text in (before, after))
    assert after == before
    kept = task.file.with_name(f"{task.file.name}.yours1")
    assert kept.read_text().count("-99") == len(task.answers)


def right(task: exercises.Exercise) -> dict[str, str]:
    return {question: f"{number:g}" for question, number in task.answers.items()}


def ids(task: object) -> str | None:
    return task.name if isinstance(task, exercises.Exercise) else None


@pytest.mark.parametrize("task", TASKS, ids=ids)
def test_the_right_answers_are_right(task: exercises.Exercise, judged: Judged) -> None:
    assert task.answers == globals()[task.name]()
    assert judged(task, right(task)) == (0, "done")
    assert judged(task, {}) == (3, "not started")
    assert 4 <= len(task.answers) <= 6 and len(task.hints) >= 2


@pytest.mark.parametrize("task, question, number", HINTS_IF, ids=ids)
def test_a_wrong_number_gets_its_own_hint(task: exercises.Exercise, question: str, number: str, judged: Judged) -> None:
    hint = task.hints_if[question][number]
    status, answer = judged(task, {**right(task), question: number})
    assert status == 1 and answer.endswith(f"{question}: not {number}\nhint: {hint}")


@pytest.mark.parametrize("task", TASKS, ids=ids)
def test_a_small_task_prepares_the_next_base_exercise(task: exercises.Exercise) -> None:
    text = task.file.read_text()
    later = EXERCISES[EXERCISES.index(task) + 1 :]
    following = next(each for each in later if each.kind != "numbers")
    assert following.kind == "base" and text.startswith(f"A small task before {following.name}: ")
    name = f"{task.lesson} {task.name}"
    assert f"./learn check {name}; ./learn hint {name} prints the next hint." in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 96


# What is typed for the answers 4, 1, 1 and 2, and the verdict.
@pytest.mark.parametrize(
    "typed, answer",
    [
        ("4 , 1  ,+1,2.0", "done"),
        (" +4,1.,01,+2.00", "done"),
        ("4?,? 1,1,2 ?", "done"),
        ("\t4,1\t,1\u00a0,2", "done"),
        (
            "4,?,1,2",
            "wrong: 3 of 4 are right; the one that is not: rank 4, step 3, sends chunk: no number yet\n"
            "hint: ./learn hint 3 which_chunk",
        ),
        (
            "4,4,?,?",
            "wrong: 1 of 4 is right; the first that is not: rank 4, step 3, sends chunk: not 4\nhint: Follow one chunk",
        ),
        (
            "4,2.0,0,2",
            "wrong: 2 of 4 are right; the first that is not: rank 4, step 3, sends chunk: not 2.0\n"
            "hint: rank 4 sends chunk 2 at step 2",
        ),
        (
            "x,x,x,x",
            "wrong: 0 of 4 are right; the first that is not: rank 1, step 2, sends chunk: 'x' is not a number\n"
            "hint: type one number and nothing else.",
        ),
        (
            "4,1,\u22124,2",
            "wrong: 3 of 4 are right; the one that is not: rank 0, step 4, sends chunk: not \u22124\n"
            "hint: chunks are numbered from 0 to 4",
        ),
        ("4,2/2,1,2", "'2/2' is not a number\nhint: type the decimal number, not a fraction: 3/4 is 0.75."),
        ("4,1 chunk,1,2", "'1 chunk' is not a number\nhint: type only the number, without a unit."),
        ("4,1B,1,2", "'1B' is not a number\nhint: type only the number, without a unit."),
        ("4,1;0,1,2", "hint: type a point in place of a decimal comma"),
        ("4,1 2,1,2", "'1 2' is not a number\nhint: type one number and nothing else."),
        ("4," + "one " * 200 + ",1,2", "hint: type one number and nothing else."),
    ],
)
@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b" \t\n"])
def test_what_is_typed_is_read_as_the_reader_means_it(typed: str, answer: str, ends: bytes, judged: Judged) -> None:
    given = [each.replace(";", ",") for each in typed.split(",")]
    assert len(given) == len(ONE.answers)
    numbers = dict(zip(ONE.answers, given))
    status, said = judged(ONE, numbers, lambda data: data.replace(b"\n", ends))
    assert answer in said and status == (0 if answer == "done" else 1)


def test_a_byte_order_mark_does_not_hide_the_first_question(judged: Judged) -> None:
    assert judged(ONE, right(ONE), lambda data: b"\xef\xbb\xbf" + data[data.index(b"rank 1") :]) == (0, "done")


@pytest.mark.parametrize("typed", [{}, right(ONE)], ids=["not started", "done"])
def test_a_line_that_is_missing_is_quoted(typed: dict[str, str], judged: Judged) -> None:
    assert judged(ONE, typed, lambda data: re.sub(rb"(?m)^rank 4, .*\n", b"", data)) == (
        1,
        "wrong: a line is missing: rank 4, step 3, sends chunk: ?\nhint: type this line again in which_chunk.txt.",
    )
