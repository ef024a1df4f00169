"""tools/forecast.py: times of all-reduces and of training steps, from formulas."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from typing import TYPE_CHECKING

import pytest
from measured_link import LINK, predictions
from programs import ROOT, command

if TYPE_CHECKING:
    from training_forecast import Training


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
def test_the_forecast_uses_the_formulas_of_the_cost_model(
    ranks: int, saved: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize(
    "hosts, steps, sent, added",  # between the hosts: messages one after another, and shares of a part
    [(2, 2, 2 / 2, 1 / 2), (3, 2 * 2, 4 / 3, 2 / 3), (4, 4, 2 * 3 / 4, 3 / 4)],
)
def test_two_levels_send_one_part_of_the_tensor_between_hosts(
    hosts: int, steps: int, sent: float, added: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside each host, the ring of its ranks; then each of them has its part all-reduced between hosts."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    import forecast

    n, per_host, gamma = 1e6, 4, forecast.GAMMA
    (near, per_near_byte), (far, per_far_byte) = forecast.WITHIN, forecast.BETWEEN
    inside = 6 * (near + n / per_host * per_near_byte) + 3 * n / per_host * gamma
    between = steps * far + n / per_host * (sent * per_far_byte + added * gamma)
    machine = forecast.Machine(hosts * per_host, per_host)
    assert forecast.hierarchical(machine, n) == pytest.approx(inside + between)


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> functools.partial[Training]:
    monkeypatch.syspath_prepend(ROOT / "tools")
    import training_forecast

    return functools.partial(training_forecast.Training, 16, 1.3e9, flops=1.6e14, busbw=2.8e9)


def test_a_training_forecast_counts_six_operations_per_parameter_and_token(
    training: functools.partial[Training],
) -> None:
    slow = training(8192)
    assert slow.forward + slow.backward == pytest.approx(6 * 1.3e9 * 8192 / 1.6e14)
    assert slow.all_reduce() == pytest.approx(15 / 16 * 8 * 1.3e9 / 2.8e9)
    assert slow.exposed() == pytest.approx(slow.all_reduce() - slow.backward)
    assert slow.step(3) == pytest.approx(2 * 6 * 1.3e9 * 8192 / 1.6e14 + slow.forward + slow.all_reduce())


def test_an_all_reduce_hides_from_two_f_over_busbw_tokens_on(training: functools.partial[Training]) -> None:
    tokens = training(1).tokens_to_hide
    assert tokens == pytest.approx(15 / 16 * 2 * 1.6e14 / 2.8e9)
    assert training(1.001 * tokens).exposed() == 0 < training(0.999 * tokens).exposed()
    needed = training(8192).busbw_to_hide
    assert training(8192, busbw=1.001 * needed).exposed() == 0 < training(8192, busbw=0.999 * needed).exposed()


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
def test_accumulation_divides_what_is_exposed(training: functools.partial[Training], share: float) -> None:
    slow = training(8192)
    fewest = slow.batches_for(share)
    assert slow.exposed_share(fewest) <= share < slow.exposed_share(fewest - 1)
    assert training(1e9).batches_for(share) == 1


def test_sharding_divides_sixteen_bytes_per_parameter(training: functools.partial[Training]) -> None:
    sizes = [training(1).state_bytes(divided) for divided in ("nothing", "moments", "gradients", "everything")]
    assert sizes == pytest.approx([1.3e9 * each for each in (16, 8 + 8 / 16, 4 + 12 / 16, 16 / 16)])


@pytest.mark.parametrize(
    "forward, busbw, backward, all_reduce, wire",
    [
        (35.71e-3, 4.1e9 / 8, 60.81e-3, 2.27543, 40e9 / 8),  # Ethernet; busbw is what iperf measures
        (32.81e-3, 100e9 / 8, 59.99e-3, 0.33640, 100e9 / 8),
    ],
)  # InfiniBand: its wire's rate
def test_the_forecast_is_near_what_others_published(
    forward: float, busbw: float, backward: float, all_reduce: float, wire: float, training: functools.partial[Training]
) -> None:
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


def test_a_training_forecast_answers_in_words() -> None:
    forecast = f"python3 {ROOT}/tools/forecast.py 16 --parameters 1.3e9 --tflops 160"
    slow = command(f"{forecast} --tokens 8192 --busbw 2.8 --memory 80").out.splitlines()
    assert slow[1:4] == [
        "forward 133 ms, backward 266 ms, all-reduce of 5.2 GB 3.48 s",
        "exposed: 3.22 s, 89 % of a step of 3.62 s; no bucket size hides it",
        "it would hide from 107,143 tokens per GPU on, or from 36.6 GB/s",
    ]
    assert "accumulating 73 batches: 10 % of a step exposed" in slow and slow[-1].startswith("memory: 16 P is 20.8 GB")
    assert command(f"{forecast} --tokens 8192").out.splitlines()[2].startswith("hidden: from 6,000 tokens per GPU on")
    large = command(f"{forecast.replace('1.3e9', '7e9')} --tokens 8192 --memory 40").out
    assert "ZeRO-1: 59.5 GB: does not fit" in large and "ZeRO-2: 33.2 GB\n" in large
    for wrong in "--tokens 8192 --memory -1", "--tokens nan", "":
        assert command(f"{forecast} {wrong}").status == 2


def test_a_forecast_on_a_full_disk_ends_with_one_sentence() -> None:
    assert command(f"python3 {ROOT}/tools/forecast.py 8 >/dev/full") == (
        1,
        "",
        "error: standard output cannot be written: No space left on device\n",
    )
