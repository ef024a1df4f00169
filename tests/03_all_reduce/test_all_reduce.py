"""all_reduce: its rows, and the messages of the ring, step by step."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from programs import runs


@pytest.mark.parametrize(
    "ranks, op, algorithm",
    [(1, "sum", None), (2, "max", None), (7, "avg", None), (3, "avg", "recursive-doubling"), (3, "avg", "auto")],
)
def test_the_rows_of_all_reduce(ranks: int, op: str, algorithm: str | None) -> None:
    flags = f"--op {op}" + (f" --algorithm {algorithm}" if algorithm else "")
    rows = [row for row in runs(ranks, f"all_reduce --json {flags}").rows if "act" in row]
    assert [row["act"] for row in rows] == [
        act for act in ([algorithm] if algorithm else ["naive", "ring"]) for _ in range(ranks)
    ]
    numbers = [[1000 * rank + i for rank in range(ranks)] for i in range(4)]
    combine: dict[str, Callable[[list[int]], float]] = {"sum": sum, "max": max, "avg": lambda each: sum(each) / ranks}
    assert all(row["correct"] for row in rows)
    assert all(row["after"] == pytest.approx([combine[op](each) for each in numbers]) for row in rows)


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_the_messages_of_the_ring(ranks: int) -> None:
    rows = runs(ranks, "all_reduce --json --algorithm ring").rows[ranks:]
    everybody = "abcdefgh"[:ranks]
    tensors = [[letter] * ranks for letter in everybody]
    for place, row in enumerate(rows):
        step, rank, right = place // ranks + 1, place % ranks, (place + 1) % ranks
        assert (row["step"], row["from"], row["to"]) == (step, rank, right)
        shares, chunk = row["shares"], row["chunk"]
        assert shares == tensors[rank][chunk]
        assert row["values"] == [sum(1000 * "abcdefgh".index(share) + chunk for share in shares)]
        tensors[right][chunk] = "".join(sorted({*shares, *tensors[right][chunk]}))
    assert step == 2 * (ranks - 1) and tensors == [[everybody] * ranks] * ranks
