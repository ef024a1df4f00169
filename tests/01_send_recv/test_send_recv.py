"""The rows that send_recv prints with --json; the page shows its text."""

from programs import runs


def test_the_rows_of_send_recv() -> None:
    rows = runs(3, "send_recv --json").rows
    assert [(row["act"], row["rank"]) for row in rows] == [
        (act, rank) for act in ("message", "ring") for rank in range(3)
    ]
    mine = [[1000 * rank + i for i in range(4)] for rank in range(3)]
    assert [row["before"] for row in rows] == mine + mine
    assert [row["after"] for row in rows] == [
        mine[0],
        mine[0],
        mine[2],
        [3000, 3003, 3006, 3009],
        [1000, 1002, 1004, 1006],
        [3000, 3003, 3006, 3009],
    ]
