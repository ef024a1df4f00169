"""The *_perf programs: what they measure, count, predict and save, in their rows and their text."""
import dataclasses
import functools
import json

import pytest

from programs import EMULATED, NO_GRACE, ROOT, command, gpus, mpirun, refused, runs, says

LINK = {"alpha_us": 10, "beta_ns_per_byte": 1, "r2": 1, "ranks": 3, "device": "cpu",
        "message": [], "exchange": []}  # what lesson 1's ping-pong would save


@pytest.fixture
def saved(tmp_path):
    """The path of the measured link, in a folder for programs to run in."""
    (tmp_path / ".learn").mkdir()
    return tmp_path / ".learn/alpha-beta.json"


def test_ping_pong_prints_a_row_for_each_size_and_saves_the_fit(tmp_path):
    *rows, fit = runs(2, "send_recv_perf --act pingpong --min-bytes 4 --max-bytes 65536 --json",
                      tmp_path).rows
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


def test_two_sizes_are_too_few_for_a_fit_and_the_saved_one_remains(saved):
    saved.write_text("old")
    rows = runs(2, "send_recv_perf --act pingpong --min-bytes 4 --max-bytes 16 --json",
                saved.parent.parent).rows
    assert len(rows) == 3
    assert rows[2] == {"act": "fit", "alpha_us": None, "beta_ns_per_byte": None, "r2": None}
    assert saved.read_text() == "old"


def test_a_fit_that_cannot_be_saved_is_still_shown(tmp_path):
    """As in a folder of somebody else's."""
    (tmp_path / ".learn").write_text("no folder")
    program = "send_recv_perf --act pingpong --max-bytes 1024"
    why = "not saved: .learn: cannot be created: Not a directory"
    says(runs(2, program, tmp_path), f"); {why}\n")
    assert runs(2, f"{program} --json", tmp_path).rows[-1]["file"] == why


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_all_acts_that_end_run_on_any_number_of_ranks(ranks, tmp_path):
    out = runs(ranks, "send_recv_perf --act all --max-bytes 4096", tmp_path).out
    assert ("if all send first" in out) == (ranks > 1) and "deadlock" not in out


def test_the_five_kinds_of_exchange_and_when_they_would_hang():
    eager, = runs(3, "send_recv_perf --act eager --json").rows
    assert eager["eager_limit_bytes"] > 0
    rows = runs(3, "send_recv_perf --act exchange --json").rows
    assert [(row["call"], row["if_all_send_first"]) for row in rows[::3]] == [
        ("MPI_Send", f"hangs above {eager['eager_limit_bytes']} bytes"), ("MPI_Ssend", "hangs"),
        ("MPI_Bsend", "works"), ("MPI_Isend", "works"), ("MPI_Sendrecv", "works")]
    assert len(rows) == 5 * 3 and all(row["wrong"] == 0 and row["time_us"] > 0 for row in rows)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_nccl_moves_the_numbers_to_the_next_rank(ranks):
    result = mpirun(ranks, "send_recv_perf --act nccl --json", **NO_GRACE)
    if result.status == 2 and not (EMULATED and gpus() >= ranks):
        says(result, "error: --act: nccl: ")
        pytest.skip(result.err.splitlines()[0])
    assert [row["after"][1] for row in result.rows] == [
        1000 * ((rank - 1) % ranks) + 1 for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [1, 2, 4, 7])
def test_broadcast_perf_verifies_every_algorithm_and_size(ranks):
    rows = runs(ranks, "broadcast_perf --json --iterations 2 --max-bytes 262144 "
                f"--root {ranks - 1}").rows
    assert {"flat", "tree", "pipeline", "scatter-all-gather", "mpi"} <= {
        row["algorithm"] for row in rows}
    assert all(row["wrong"] == 0 and row["ranks"] == ranks for row in rows)
    assert all("rounds" in row and "predicted_us" in row for row in rows)


def predictions(ranks, program, folder):
    """The row of each algorithm for one size."""
    flags = "--json --device cpu --iterations 1 --min-bytes 65536 --max-bytes 65536"
    return {row["algorithm"]: row for row in runs(ranks, f"{program} {flags}", folder).rows}


def test_broadcast_perf_predicts_times_from_the_saved_fit(saved):
    folder = saved.parent.parent
    assert all(row["predicted_us"] is None
               for row in predictions(3, "broadcast_perf", folder).values())
    saved.write_text(json.dumps(LINK))
    rows = predictions(3, "broadcast_perf", folder)
    for name, rounds, bytes in [("flat", 2, 65536), ("tree", 2, 65536), ("pipeline", 4, 21888),
                                ("scatter-all-gather", 4, 21846)]:  # of each message
        assert rows[name]["rounds"] == rounds
        assert rows[name]["predicted_us"] == pytest.approx(rounds * (10 + bytes / 1000))
    assert rows["mpi"]["predicted_us"] is None and rows["mpi"]["rounds"] is None
    says(runs(4, "broadcast_perf --device cpu", folder), "%",  # the errors
         "predicted from lesson 1's ping-pong on 3 ranks",
         "verified: every element on every rank, for every algorithm and size")


def test_a_damaged_fit_is_refused_by_all_ranks_together(saved):
    saved.write_text('{"alpha_us": 1')
    refused("broadcast_perf",
            ".learn/alpha-beta.json: not JSON; remove the file, or measure again",
            folder=saved.parent.parent)


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
def test_the_forecast_uses_the_formulas_of_the_cost_model(ranks, saved, monkeypatch):
    """On a machine with one rank per host, there is one kind of link."""
    saved.write_text(json.dumps(LINK))
    rows = predictions(ranks, "all_reduce_perf", saved.parent.parent)
    monkeypatch.syspath_prepend(ROOT / "tools")
    import forecast
    monkeypatch.setattr(forecast, "BETWEEN", (10e-6, 1e-9))
    monkeypatch.setattr(forecast, "GAMMA", 5e-11)  # the default of choice/cost_model.hpp
    machine = forecast.Machine(ranks, 1)
    for algorithm in (forecast.ring, forecast.recursive_doubling, forecast.rabenseifner):
        row = rows[algorithm.__name__.replace("_", "-")]
        assert row["predicted_us"] == pytest.approx(algorithm(machine, row["bytes"]) * 1e6)


@pytest.fixture
def training(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import training_forecast
    return functools.partial(training_forecast.Training, 16, 1.3e9, flops=1.6e14, busbw=2.8e9)


def test_a_training_forecast_counts_six_operations_per_parameter_and_token(training):
    slow = training(8192)
    assert slow.forward + slow.backward == pytest.approx(6 * 1.3e9 * 8192 / 1.6e14)
    assert slow.all_reduce() == pytest.approx(15 / 16 * 8 * 1.3e9 / 2.8e9)
    assert slow.exposed() == pytest.approx(slow.all_reduce() - slow.backward)
    assert slow.step(3) == pytest.approx(2 * 6 * 1.3e9 * 8192 / 1.6e14 + slow.forward + slow.all_reduce())


def test_an_all_reduce_hides_from_two_f_over_busbw_tokens_on(training):
    tokens = training(1).tokens_to_hide
    assert tokens == pytest.approx(15 / 16 * 2 * 1.6e14 / 2.8e9)
    assert training(1.001 * tokens).exposed() == 0 < training(0.999 * tokens).exposed()
    needed = training(8192).busbw_to_hide
    assert training(8192, busbw=1.001 * needed).exposed() == 0 < training(8192, busbw=0.999 * needed).exposed()


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
def test_accumulation_divides_what_is_exposed(training, share):
    slow = training(8192)
    fewest = slow.batches_for(share)
    assert slow.exposed_share(fewest) <= share < slow.exposed_share(fewest - 1)
    assert training(1e9).batches_for(share) == 1


def test_sharding_divides_sixteen_bytes_per_parameter(training):
    sizes = [training(1).state_bytes(divided) for divided in ("nothing", "moments", "gradients", "everything")]
    assert sizes == pytest.approx([1.3e9 * each for each in (16, 8 + 8 / 16, 4 + 12 / 16, 16 / 16)])


@pytest.mark.parametrize("forward, busbw, backward, all_reduce, wire", [
    (35.71e-3, 4.1e9 / 8, 60.81e-3, 2.27543, 40e9 / 8),  # Ethernet; busbw is what iperf measures
    (32.81e-3, 100e9 / 8, 59.99e-3, 0.33640, 100e9 / 8)])  # InfiniBand: its wire's rate
def test_the_forecast_is_near_what_others_published(forward, busbw, backward, all_reduce, wire, training):
    """docs/pytorch.md's table: 64 GPUs, BERT-Large with fp16 gradients (Tang et al., 2021, table 1)."""
    flops = 2 * 340e6 * 2048 / forward
    run = dataclasses.replace(training(2048), ranks=64, parameters=340e6, flops=flops, busbw=busbw)
    assert run.backward == pytest.approx(backward, rel=0.2)
    if busbw < wire:
        assert run.all_reduce(share=0.5) == pytest.approx(all_reduce, rel=0.2)
    used = run.all_reduce(share=0.5) * busbw / all_reduce
    assert 0.1 < used / wire < 0.5  # so nobody may put the wire's rate for busbw
    page = (ROOT / "docs/pytorch.md").read_text()
    assert f"{run.backward * 1e3:.0f} ms" in page and f"{used * 8e-9:.2g}" in page


def test_a_training_forecast_answers_in_words():
    forecast = f"python3 {ROOT}/tools/forecast.py 16 --parameters 1.3e9 --tflops 160"
    slow = command(f"{forecast} --tokens 8192 --busbw 2.8 --memory 80").out.splitlines()
    assert slow[1:4] == [
        "forward 133 ms, backward 266 ms, all-reduce of 5.2 GB 3.48 s",
        "exposed: 3.22 s, 89 % of a step of 3.62 s; no bucket size hides it",
        "it would hide from 107,143 tokens per GPU on, or from 36.6 GB/s"]
    assert "accumulating 73 batches: 10 % of a step exposed" in slow and slow[-1].startswith("memory: 16 P is 20.8 GB")
    assert command(f"{forecast} --tokens 8192").out.splitlines()[2].startswith("hidden: from 6,000 tokens per GPU on")
    large = command(f"{forecast.replace('1.3e9', '7e9')} --tokens 8192 --memory 40").out
    assert "ZeRO-1: 59.5 GB: does not fit" in large and "ZeRO-2: 33.2 GB\n" in large
    for wrong in "--tokens 8192 --memory -1", "--tokens nan", "":
        assert command(f"{forecast} {wrong}").status == 2


def test_a_forecast_on_a_full_disk_ends_with_one_sentence():
    assert command(f"python3 {ROOT}/tools/forecast.py 8 >/dev/full") == (
        1, "", "error: standard output cannot be written: No space left on device\n")


@pytest.mark.parametrize("op", ["sum", "avg", "max"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_all_reduce_perf_verifies_every_algorithm_op_and_size(ranks, op):
    rows = runs(ranks, "all_reduce_perf --json --iterations 2 --min-bytes 0 --max-bytes 400000 "
                f"--no-registered --op {op}").rows
    assert len(rows) >= 8 * 9 and all(row["wrong"] == 0 for row in rows)


def test_auto_says_what_it_chose_and_rows_have_both_bandwidths():
    rows = runs(4, "all_reduce_perf --json --algorithm auto --min-bytes 1024 "
                "--max-bytes 4194304").rows
    assert rows
    for row in rows:
        assert row["algorithm"] == "auto" and row["chosen"] == "shared-memory"
        assert row["predicted_us"] is None
        algbw = row["bytes"] / row["time_us"] / 1000
        assert row["algbw_gbs"] == pytest.approx(algbw)
        assert row["busbw_gbs"] == pytest.approx(1.5 * algbw, rel=2e-6)


def test_what_sends_no_messages_of_ours_has_no_counts():
    """docs/beyond.md shows the counts of the algorithms that do send messages."""
    rows = runs(4, "all_reduce_perf --json --iterations 1 --min-bytes 4096 --max-bytes 4096").rows
    keys = ("messages_per_rank", "bytes_per_rank", "peers")
    counts = {row["algorithm"]: [row[key] for key in keys] for row in rows}
    assert counts["ring"] == [6, 6144, [1]]
    assert counts["mpi"] == counts["shared-memory"] == [None, None, None]


@pytest.mark.parametrize("flags, size", [
    ("--min-bytes 32M", 33554432), ("--max-bytes 16", 16)])
def test_if_one_end_of_a_sweep_is_given_the_other_adapts_to_it(flags, size):
    rows = runs(2, f"all_reduce_perf --algorithm ring --iterations 1 --json {flags}").rows
    assert {row["bytes"] for row in rows} == {size}
