"""./learn bench writes a table for each of its words, and refuses wrong flags before it builds."""

import argparse
import pathlib
import re
import runpy

import pytest
from programs import BUILD, ROOT, Result, command

SOURCE = (ROOT / "bench/bench.py").read_text()
WORDS = re.findall(r'"([a-z-]+)": \w+', SOURCE)


def bench(words: str, output: pathlib.Path) -> Result:
    # The peers start slowly, and may not be installed.
    return command(
        f"{ROOT}/learn bench {words} --output {output}", limit=600, LEARN_BUILD_DIR=str(BUILD), PYTHON="no-such-python"
    )


def test_every_benchmark_is_a_word_and_the_help_lists_them() -> None:
    apart = {"bench", "charts", "harness"}  # what the words share
    files = {path.stem for path in (ROOT / "bench").glob("*.py")}
    assert files == apart | set(re.findall(r"^from (\w+) import", SOURCE, re.M)) and len(WORDS) >= 5
    assert f"[{' | '.join(WORDS)}]" in command(f"{ROOT}/learn help").out


@pytest.mark.parametrize("fastest, setting", [("Open MPI", "default"), ("ring", "ring")])
def test_best_tuned_is_the_fastest_setting_of_open_mpi(
    fastest: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    import all_reduce

    times = {(2, who, 1024): 2.0 for who in (*all_reduce.TIMES, *all_reduce.TUNED)}
    row = all_reduce.AllReduce.row(2, 1024, {**times, (2, fastest, 1024): 1.0})
    assert (row["best tuned"], row["setting"]) == (1.0, setting)


def test_guards_cost_what_a_step_with_them_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    import harness

    training = runpy.run_path(str(ROOT / "bench/training.py"))["Training"]  # the tests have a training.py, too
    model = harness.Model("784-10:64")
    rates = {"on": 100, "off": 125}
    runs = harness.Rounds({(model, who): [{"samples_per_second": rate}] for who, rate in rates.items()})
    bench = object.__new__(training)
    bench.options = argparse.Namespace(models=[model], rounds=1)
    monkeypatch.setattr(bench, "turns", lambda *_, **__: runs)
    assert "| 1.25 |" in "".join(bench.guard_table()).replace("  ", " ")


@pytest.mark.long
@pytest.mark.parametrize("word", WORDS)
def test_a_word_writes_its_page(word: str, tmp_path: pathlib.Path) -> None:
    result = bench(f"--quick {word}", tmp_path)
    if skipped := re.search("^skipped: (.*)", result.out, re.M):
        pytest.skip(skipped[1])
    assert result.status == 0, result.out + result.err
    name = word.replace("-", "_")
    page, chart = ((tmp_path / f"{name}.{kind}").read_text() for kind in ("md", "svg"))
    assert f"]({name}.svg)" in page and chart.count("fill=") >= 3
    assert max(line.count("|") for line in page.splitlines()) <= 9  # eight columns
    assert re.search(r"^\|.*[^|]\|( *[\d.,]+ *\|)+", page, re.M), page  # a row of numbers
    assert re.search("^- processor: .* cores$", page, re.M)
    measured = re.search(r"^- measured:(.|\n)*?\n\n", page, re.M)
    assert measured, page
    settings = measured[0]
    assert re.search("^- commands: `(mpirun -np|two_hosts.sh|matmul_perf) ", settings, re.M)
    assert settings.count("\n") <= 11, settings
    assert str(BUILD) not in page


@pytest.mark.parametrize(
    "words, error",
    [
        ("speed", f"bench: 'speed' is not one of: {' '.join(WORDS)}"),
        ("--max-bytes 4096", "unrecognized arguments: --max-bytes"),  # not of both default words
        ("training --models 784,512", "must look like 784-512-10:64"),
        ("hosts --rounds 0", "at least 1 round"),
        ("hosts --rounds 1.5", "must be whole numbers"),
    ],
)
def test_wrong_words_are_refused(words: str, error: str, tmp_path: pathlib.Path) -> None:
    result = bench(words, tmp_path / "refused")
    assert result.status == 2 and error in result.err, result.out + result.err
    assert not (tmp_path / "refused").exists()
