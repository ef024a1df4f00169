"""What every program prints: a verdict within a screen, its help, its version."""

import re

import pytest
from programs import ROOT, runs


@pytest.mark.parametrize(
    "program, counts",
    [
        ("send_recv", [1, 2, 7]),
        ("broadcast", [1, 3]),
        ("all_reduce", [1, 7]),
        ("all_reduce_perf", [4]),
        ("distributed_sampler", [1, 2, 3, 7]),
        ("distributed_sampler --size 10 --drop-last", [1, 3, 4]),
        ("distributed_sampler --size 1000 --no-shuffle --epoch 3", [3, 7]),
        *[(f"distributed_sampler --size {size}", [1, 3, 7]) for size in (0, 1, 2)],
    ],
)
def test_the_text_is_verified_and_fits_a_screen(program: str, counts: list[int]) -> None:
    for ranks in counts:
        out = runs(ranks, program).out
        assert re.search("^verified: every ", out, re.M) and len(out.splitlines()) <= 25, out
        assert "nan" not in out  # ranks without a sample have no mean


def test_help_and_version_are_printed_once() -> None:
    text = runs(3, "send_recv_perf --help").out
    assert text.count("--act") == 1 and len(text.splitlines()) <= 25
    assert "--sampler-seed" not in runs(2, "ddp_training --help").out
    assert "--sampler-seed" in runs(2, "ddp_training --help-all").out
    version = re.search(r"project\(.* VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert version and runs(2, "all_reduce --version").out == f"all_reduce {version[1]}\n"
