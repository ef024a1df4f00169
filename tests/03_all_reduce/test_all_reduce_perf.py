"""all_reduce_perf verifies every algorithm, and says what it chose, sent and measured."""

import pytest
from programs import runs


# all_reduce_test.cpp has every op on every number of ranks.
@pytest.mark.parametrize("ranks, op", [(1, "sum"), (3, "avg"), (4, "max"), (7, "sum")])
def test_all_reduce_perf_verifies_every_algorithm_op_and_size(ranks: int, op: str) -> None:
    rows = runs(
        ranks, f"all_reduce_perf --json --iterations 2 --min-bytes 0 --max-bytes 400000 --no-registered --op {op}"
    ).rows
    assert len(rows) >= 8 * 9 and all(row["wrong"] == 0 for row in rows)


def test_auto_says_what_it_chose_and_rows_have_both_bandwidths() -> None:
    rows = runs(4, "all_reduce_perf --json --algorithm auto --min-bytes 1024 --max-bytes 4194304").rows
    assert rows
    for row in rows:
        assert row["algorithm"] == "auto" and row["chosen"] == "shared-memory"
        assert row["predicted_us"] is None
        algbw = row["bytes"] / row["time_us"] / 1000
        assert row["algbw_gbs"] == pytest.approx(algbw)
        assert row["busbw_gbs"] == pytest.approx(1.5 * algbw, rel=2e-6)


def test_what_sends_no_messages_of_ours_has_no_counts() -> None:
    """docs/beyond.md shows the counts of the algorithms that do send messages."""
    rows = runs(4, "all_reduce_perf --json --iterations 1 --min-bytes 4096 --max-bytes 4096").rows
    keys = ("messages_per_rank", "bytes_per_rank", "peers")
    counts = {row["algorithm"]: [row[key] for key in keys] for row in rows}
    assert counts["ring"] == [6, 6144, [1]]
    assert counts["mpi"] == counts["shared-memory"] == [None, None, None]


@pytest.mark.parametrize("flags, size", [("--min-bytes 32M", 33554432), ("--max-bytes 16", 16)])
def test_if_one_end_of_a_sweep_is_given_the_other_adapts_to_it(flags: str, size: int) -> None:
    rows = runs(2, f"all_reduce_perf --algorithm ring --iterations 1 --json {flags}").rows
    assert {row["bytes"] for row in rows} == {size}
