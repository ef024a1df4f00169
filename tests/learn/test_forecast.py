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

    monkeypatch.setattr(forecast, "BETWEEN", 10e-6)
    monkeypatch.setattr(forecast, "GAMMA", 5e-11)  # the default of choice/cost_model.hpp
    machine = forecast.Machine(ranks, 1, card=1e9)
    for algorithm in (forecast.ring, forecast.recursive_doubling, forecast.rabenseifner):
        row = rows[algorithm.__name__.replace("_", "-")]
        assert row["predicted_us"] == pytest.approx(algorithm(machine, row["bytes"]) * 1e6)


@pytest.mark.parametrize(
    "hosts, steps, sent, added",  # between the hosts: messages one after another, and shares of a part
    [(2, 2, 2 / 2, 1 / 2), (3, 2 * 2, 4 / 3, 2 / 3), (4, 4, 2 * 3 / 4, 3 / 4)],
)
@pytest.mark.parametrize("cards", [1, 4])
def test_two_levels_send_one_part_of_the_tensor_between_hosts(
    hosts: int, steps: int, sent: float, added: float, cards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside each host, the ring of its ranks; then each of them has its part all-reduced between hosts, over the
    same cards."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    import forecast

    n, per_host, gamma = 1e6, 4, forecast.GAMMA
    (near, per_near_byte), far = forecast.WITHIN, forecast.BETWEEN
    per_far_byte = per_host / cards / 25e9
    inside = 6 * (near + n / per_host * per_near_byte) + 3 * n / per_host * gamma
    between = steps * far + n / per_host * (sent * per_far_byte + added * gamma)
    machine = forecast.Machine(hosts * per_host, per_host, 25e9, cards)
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
    sizes = [training(1).state_bytes(divided) for divided in ("nothing", "states", "gradients", "everything")]
    assert sizes == pytest.approx([1.3e9 * each for each in (16, 8 + 8 / 16, 4 + 12 / 16, 16 / 16)])


@pytest.mark.parametrize(
    "divided, float32, bf16",
    [("nothing", 112, 112), ("states", 63, 38.5), ("gradients", 38.5, 26.25), ("everything", 14, 14)],
)
def test_bf16_halves_what_is_sent_and_divides_more(
    divided: str, float32: float, bf16: float, training: functools.partial[Training]
) -> None:
    """7 billion parameters on 8 GPUs, in GB."""
    from training_forecast import PRECISIONS

    wide, half = (
        dataclasses.replace(training(1), ranks=8, parameters=7e9, precision=PRECISIONS[name]) for name in PRECISIONS
    )
    assert (wide.state_bytes(divided), half.state_bytes(divided)) == pytest.approx((1e9 * float32, 1e9 * bf16))
    assert half.all_reduce() == pytest.approx(wide.all_reduce() / 2)


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
    """The table of docs/pytorch_choices.md: 64 GPUs, BERT-Large with fp16 gradients (Tang et al., 2021, table 1)."""
    flops = 2 * 340e6 * 2048 / forward
    run = dataclasses.replace(training(2048), ranks=64, parameters=340e6, flops=flops, busbw=busbw)
    assert run.backward == pytest.approx(backward, rel=0.2)
    if busbw < wire:
        assert run.all_reduce(share=0.5) == pytest.approx(all_reduce, rel=0.2)
    used = run.all_reduce(share=0.5) * busbw / all_reduce
    assert 0.1 < used / wire < 0.5  # so nobody may put the wire's rate for busbw
    page = (ROOT / "docs/pytorch_choices.md").read_text()
    assert f"{run.backward * 1e3:.0f} ms" in page and f"{used * 8e-9:.2g}" in page


@pytest.mark.parametrize(
    "hosts, per_host, cards, gbit, measured",
    [
        (4, 8, 8, 400, 366),  # H100 and InfiniBand: nccl-tests#309
        (3, 8, 4, 200, 96.7),  # A100: nccl-tests#119
        (5, 8, 4, 400, 190),  # H100 and RoCE: nccl#1368
        (16, 8, 8, 800, 760),  # B300: nccl#2035
        (2, 8, 8, 200, 192),  # A100: NVIDIA in nccl#812
        (2, 8, 4, 100, 47),  # DGX-1: NVIDIA in nccl#307
        (2, 1, 1, 400, 47),  # 46 to 48 per card: NVIDIA in nccl-tests#290
    ],
)
def test_the_cards_of_a_host_add_up_as_others_measured(
    hosts: int, per_host: int, cards: int, gbit: float, measured: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    import forecast

    monkeypatch.setattr(forecast, "WITHIN", (2.8e-6, 1e-12))  # NVLink of each generation is another
    machine = forecast.Machine(hosts * per_host, per_host, 1e9 * gbit / 8 * forecast.REACHED, cards)
    assert machine.busbw() == pytest.approx(1e9 * measured, rel=0.04)
    n = 16e9  # the rings that NCCL runs get there; a single ring uses one card
    busbw = n / forecast.rings(machine, n) * 2 * (machine.ranks - 1) / machine.ranks
    assert busbw == pytest.approx(machine.busbw(), rel=0.05)
    assert forecast.ring(machine, n) >= forecast.rings(machine, n)


def test_a_training_forecast_answers_in_words() -> None:
    forecast = f"python3 {ROOT}/tools/forecast.py 16 --parameters 1.3e9 --tflops 160"
    slow = command(f"{forecast} --tokens 8192 --busbw 2.8 --memory 80").out.splitlines()
    assert slow[1:4] == [
        "forward 133 ms, backward 266 ms, all-reduce of 5.2 GB 3.48 s",
        "exposed: 3.22 s, 89 % of a step of 3.62 s; no bucket size hides it",
        "it would hide from 107,143 tokens per GPU on, or from 36.6 GB/s",
    ]
    assert "accumulating 73 batches: 10 % of a step exposed" in slow
    assert slow[-5].startswith("memory: 16 P is 20.8 GB of")
    assert slow[-4].startswith("  left out: activations") and slow[-3] == "  ZeRO-1: 11.1 GB"
    assert command(f"{forecast} --tokens 8192").out.splitlines()[2].startswith("hidden: from 811 tokens per GPU on")
    large = command(f"{forecast.replace('1.3e9', '7e9')} --tokens 8192 --memory 40").out
    assert "ZeRO-1: 59.5 GB: does not fit" in large and "ZeRO-2: 33.2 GB\n" in large
    half = command(f"{forecast} --tokens 8192 --precision bf16").out.splitlines()
    assert half[2].startswith("hidden: from 405 tokens per GPU on (F / busbw)")
    for wrong in "--tokens 8192 --memory -1", "--tokens nan", "":
        assert command(f"{forecast} {wrong}").status == 2


def test_a_forecast_on_a_full_disk_ends_with_one_sentence() -> None:
    assert command(f"python3 {ROOT}/tools/forecast.py 8 >/dev/full") == (
        1,
        "",
        "error: standard output cannot be written: No space left on device\n",
    )
