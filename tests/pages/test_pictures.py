"""The READMEs' pictures show what the programs do: they are drawn again from the recorded runs, to
the same bytes, and new runs agree with the recorded ones in all that does not depend on clocks.
"""

import pathlib
import re
import sys

import pytest
from programs import BUILD, HIDE_GPUS, ROOT, built

sys.path.insert(0, str(ROOT / "tools" / "pictures"))
import draw
import eager_rendezvous
import overlap

COMMITTED = {path.name: path.read_bytes() for path in (ROOT / "docs/pictures").glob("*.svg")}
LARGEST = 40_000  # bytes of an SVG file


@pytest.mark.quick
def test_the_pictures_are_those_that_draw_draws() -> None:
    drawn = {f"{name}.svg": draw.draw(name).encode() for name in draw.PICTURES}
    assert sorted(drawn) == sorted(COMMITTED)
    assert [name for name in drawn if drawn[name] != COMMITTED[name]] == []


@pytest.mark.quick
@pytest.mark.parametrize(
    "path",
    [*(ROOT / "docs/pictures").glob("*.svg"), *(ROOT / "bench/results").glob("*.svg")],
    ids=lambda path: path.name,
)
def test_a_picture_fits_a_page(path: pathlib.Path) -> None:
    """It is legible, has text for screen readers, and loads and runs nothing."""
    text = path.read_text("utf-8")
    assert len(text) < LARGEST and "<title" in text and "<desc" in text
    assert min(map(float, re.findall(r"font-size[:=]\W*([\d.]+)", text))) >= 12
    assert not re.search(r"<script|<image|<foreignObject|href=\"[^#]|url\([^#]|@import", text)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> draw.Programs:
    for name, value in HIDE_GPUS.items():
        monkeypatch.setenv(name, value)
    return draw.Programs(str(BUILD))


@built
@pytest.mark.parametrize("name", ["ring", "tree", "sampler", "buckets"])
def test_a_new_run_gives_the_recorded_data(name: str, programs: draw.Programs) -> None:
    module, recorded = draw.PICTURES[name], draw.recorded(name)
    assert {"command": module.COMMAND, **module.record(programs)} == recorded


@built
@pytest.mark.parametrize("which", ["recorded", "new"])
def test_only_a_send_above_the_limit_waits_for_its_receive(which: str, programs: draw.Programs) -> None:
    recorded = which == "recorded"
    run = draw.recorded("eager_rendezvous") if recorded else eager_rendezvous.record(programs)
    early = {kind: eager_rendezvous.complete(run[kind]) < run[kind]["receive"][0] for kind in ("eager", "rendezvous")}
    assert early == {"eager": True, "rendezvous": False}
    assert run["rendezvous"]["bytes"] == run["eager"]["bytes"] + 1


@built
@pytest.mark.parametrize("way, flag", overlap.WAYS.items())
def test_a_new_step_has_the_recorded_phases(way: str, flag: str, programs: draw.Programs) -> None:
    command = f"mpirun -np 2 build/bin/ddp_training {flag} --max-steps 3 --trace trace.json"
    recorded, new = draw.recorded("overlap")[way], next(overlap.steps_of(programs.trace(command)))
    assert sorted(name for name, _, _ in new) == sorted(name for name, _, _ in recorded)
