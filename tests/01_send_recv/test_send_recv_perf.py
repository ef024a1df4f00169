"""send_recv_perf: what it measures, fits and saves, and its kinds of exchange."""

import json
import pathlib

import pytest
from programs import EMULATED, NO_GRACE, gpus, mpirun, runs, says


def test_ping_pong_prints_a_row_for_each_size_and_saves_the_fit(tmp_path: pathlib.Path) -> None:
    *rows, fit = runs(2, "send_recv_perf --act pingpong --min-bytes 4 --max-bytes 65536 --json", tmp_path).rows
    assert [row["bytes"] for row in rows] == [4 * 4**k for k in range(8)]
    for row in rows:
        assert row["act"] == "pingpong" and row["time_us"] > 0
        assert row["bandwidth_gbs"] == pytest.approx(row["bytes"] / row["time_us"] / 1000)
    kept = json.loads((tmp_path / ".learn/alpha-beta.json").read_text())
    assert fit["act"] == "fit"
    for key in ("alpha_us", "beta_ns_per_byte", "r2"):  # --json prints nine digits
        assert fit[key] == pytest.approx(kept[key], rel=1e-8)
    # On a busy machine, the large messages may be the fast ones, and the fitted line is flat.
    alpha, beta = fit["alpha_us"], fit["beta_ns_per_byte"]
    assert alpha >= 0 and beta >= 0 and alpha + beta > 0 and fit["r2"] <= 1
    assert kept["ranks"] == 2 and kept["message"][7]["bytes"] == 65536
    assert len(kept["message"]) == len(kept["exchange"]) == 8


def test_two_sizes_are_too_few_for_a_fit_and_the_saved_one_remains(saved: pathlib.Path) -> None:
    saved.write_text("old")
    rows = runs(2, "send_recv_perf --act pingpong --min-bytes 4 --max-bytes 16 --json", saved.parent.parent).rows
    assert len(rows) == 3
    assert rows[2] == {"act": "fit", "alpha_us": None, "beta_ns_per_byte": None, "r2": None}
    assert saved.read_text() == "old"


def test_a_fit_that_cannot_be_saved_is_still_shown(tmp_path: pathlib.Path) -> None:
    """As in a folder of somebody else's."""
    (tmp_path / ".learn").write_text("no folder")
    program = "send_recv_perf --act pingpong --max-bytes 1024"
    why = "not saved: .learn: cannot be created: Not a directory"
    says(runs(2, program, tmp_path), f"); {why}\n")
    assert runs(2, f"{program} --json", tmp_path).rows[-1]["file"] == why


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_all_acts_that_end_run_on_any_number_of_ranks(ranks: int, tmp_path: pathlib.Path) -> None:
    out = runs(ranks, "send_recv_perf --act all --max-bytes 4096", tmp_path).out
    assert ("if all send first" in out) == (ranks > 1) and "deadlock" not in out


def test_the_five_kinds_of_exchange_and_when_they_would_hang() -> None:
    (eager,) = runs(3, "send_recv_perf --act eager --json").rows
    assert eager["eager_limit_bytes"] > 0
    rows = runs(3, "send_recv_perf --act exchange --json").rows
    assert [(row["call"], row["if_all_send_first"]) for row in rows[::3]] == [
        ("MPI_Send", f"hangs above {eager['eager_limit_bytes']} bytes"),
        ("MPI_Ssend", "hangs"),
        ("MPI_Bsend", "works"),
        ("MPI_Isend", "works"),
        ("MPI_Sendrecv", "works"),
    ]
    assert len(rows) == 5 * 3 and all(row["wrong"] == 0 and row["time_us"] > 0 for row in rows)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_nccl_moves_the_numbers_to_the_next_rank(ranks: int) -> None:
    result = mpirun(ranks, "send_recv_perf --act nccl --json", **NO_GRACE)
    if result.status == 2 and not (EMULATED and gpus() >= ranks):
        says(result, "error: --act: nccl: ")
        pytest.skip(result.err.splitlines()[0])
    assert [row["after"][1] for row in result.rows] == [1000 * ((rank - 1) % ranks) + 1 for rank in range(ranks)]
