"""broadcast: its rows, the messages of the tree, and a whole model from any root."""

from __future__ import annotations

import json
import pathlib

import pytest
from programs import runs, says


@pytest.mark.parametrize(
    "ranks, algorithm", [(1, None), (7, None), (4, "pipeline"), (4, "scatter-all-gather"), (4, "mpi")]
)
def test_the_rows_of_broadcast(ranks: int, algorithm: str | None) -> None:
    root = ranks - 1
    flags = f"--algorithm {algorithm}" if algorithm else ""
    rows = [row for row in runs(ranks, f"broadcast --json --root {root} {flags}").rows if "act" in row]
    assert [(row["act"], row["rank"]) for row in rows] == [
        (act, rank) for act in ([algorithm] if algorithm else ["flat", "tree"]) for rank in range(ranks)
    ]
    assert all(row["correct"] for row in rows)
    assert all(row["after"] == [1000 * root + i for i in range(4)] for row in rows)


@pytest.mark.parametrize("ranks, root", [(1, 0), (3, 1), (8, 0), (7, 5)])
def test_the_messages_of_the_tree(ranks: int, root: int, tmp_path: pathlib.Path) -> None:
    flags = f"--json --algorithm tree --root {root} --trace t.json"
    rows = runs(ranks, f"broadcast {flags}", tmp_path).rows[ranks:]
    trace = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    for rank in range(ranks):  # the model goes the same way, in 144 bytes
        sent = sorted(
            (event["ts"], event["args"]["to"])
            for event in trace
            if (event["name"], event["pid"]) == ("MPI_Send", rank) and event["args"]["bytes"] == 144
        )
        assert [row["to"] for row in rows if row["from"] == rank] == [to for _, to in sent]
    have, last = {root}, 0
    for row in rows:
        if row["round"] > last:
            senders, last = set(have), row["round"]
        assert row["from"] in senders and row["to"] not in have
        senders.remove(row["from"])
        have.add(row["to"])
        assert row["values"] == [1000 * root + i for i in range(4)]
    assert len(have) == ranks and last == (ranks - 1).bit_length()


def test_a_model_is_broadcast_from_any_root() -> None:
    says(runs(4, "broadcast --root 1"), "rank 3  df34bf38f82ac10b  ->  b79a0ee7666eb2e6")
