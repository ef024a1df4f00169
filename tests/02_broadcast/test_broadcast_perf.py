"""broadcast_perf verifies every algorithm, and predicts times from lesson 1's measured link."""

import json
import pathlib

import pytest
from measured_link import LINK, predictions
from programs import refused, runs, says


@pytest.mark.parametrize("ranks", [1, 3, 7])  # broadcast_test.cpp has the others
def test_broadcast_perf_verifies_every_algorithm_and_size(ranks: int) -> None:
    rows = runs(ranks, f"broadcast_perf --json --iterations 2 --max-bytes 262144 --root {ranks - 1}").rows
    assert {"flat", "tree", "pipeline", "scatter-all-gather", "mpi"} <= {row["algorithm"] for row in rows}
    assert all(row["wrong"] == 0 and row["ranks"] == ranks for row in rows)
    assert all("rounds" in row and "predicted_us" in row for row in rows)


def test_broadcast_perf_predicts_times_from_the_saved_fit(saved: pathlib.Path) -> None:
    folder = saved.parent.parent
    assert all(row["predicted_us"] is None for row in predictions(3, "broadcast_perf", folder).values())
    saved.write_text(json.dumps(LINK))
    rows = predictions(3, "broadcast_perf", folder)
    for name, rounds, bytes in [
        ("flat", 2, 65536),
        ("tree", 2, 65536),
        ("pipeline", 4, 21888),
        ("scatter-all-gather", 4, 21846),
    ]:  # of each message
        assert rows[name]["rounds"] == rounds
        assert rows[name]["predicted_us"] == pytest.approx(rounds * (10 + bytes / 1000))
    assert rows["mpi"]["predicted_us"] is None and rows["mpi"]["rounds"] is None
    says(
        runs(4, "broadcast_perf --device cpu", folder),
        "%",  # the errors
        "predicted from lesson 1's ping-pong on 3 ranks",
        "verified: every element on every rank, for every algorithm and size",
    )


def test_a_damaged_fit_is_refused_by_all_ranks_together(saved: pathlib.Path) -> None:
    saved.write_text('{"alpha_us": 1')
    refused(
        "broadcast_perf",
        ".learn/alpha-beta.json: not JSON; remove the file, or measure again",
        folder=saved.parent.parent,
    )
