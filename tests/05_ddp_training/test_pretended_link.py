"""--pretend-link: gradients take as long as on a slower link, and no number changes."""

import pytest
from programs import runs
from training import train


@pytest.mark.parametrize("ranks, backend", [(2, "ours"), (3, "ours"), (2, "mpi")])
def test_a_pretended_link_takes_its_time_and_changes_no_number(ranks: int, backend: str) -> None:
    layers, gbits = (64, 64, 10), 0.02
    flags = f"--device cpu --dataset synthetic --layers {','.join(map(str, layers))} --max-steps 8 --backend {backend}"
    sent = 4 * sum(a * b + b for a, b in zip(layers, layers[1:])) * 2 * (ranks - 1) / ranks
    plain = train(ranks, flags)
    hidden, exposed = (train(ranks, f"{flags} --pretend-link {gbits} {overlap}") for overlap in ("", "--no-overlap"))
    assert plain.final["pretend_link_gbits"] is None
    for run in (hidden, exposed):
        assert run.final["pretend_link_gbits"] == gbits
        assert run.final["comm_ms"] >= sent * 8 / (gbits * 1e6)
        assert run.hashes == plain.hashes
    assert exposed.final["exposed_comm_ms"] >= sent * 8 / (gbits * 1e6)
    said = runs(ranks, f"ddp_training {flags} --pretend-link {gbits}").out
    assert "on a pretended link" in said and f"hidden, as on a link of {gbits} Gbit/s" in said


def test_a_slow_pretended_link_is_not_a_hang() -> None:
    """The first layer's gradients take 5 seconds."""
    runs(
        2,
        "ddp_training --device cpu --dataset synthetic --samples 16 --layers 784,2048,10 "
        "--batch-size 8 --max-steps 1 --pretend-link 0.01 --timeout 4",
    )
