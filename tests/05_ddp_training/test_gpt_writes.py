"""The whole run of the page about the GPT: what it learns, what it writes, and what the page says of it."""

import re

import pytest
from programs import ROOT, Result, runs

pytestmark = pytest.mark.long
GPT = ROOT / "05_ddp_training/advanced"
PAGE = (GPT / "gpt.md").read_text()


@pytest.fixture(scope="module")
def run() -> Result:
    return runs(4, "gpt_training --device cpu", limit=900)


def numbers(text: str) -> list[tuple[str, float]]:
    """The losses that a run prints, with the words before each."""
    return [
        (name, float(loss)) for name, loss in re.findall(r"(step +\d+/\d+|loss on .* text).*? (\d\.\d{3,4})\b", text)
    ]


def test_the_page_has_the_losses_of_this_run(run: Result) -> None:
    on_page = numbers(re.findall(r"```\n(4 ranks.*?)```", PAGE, re.S)[0])
    assert len(on_page) == 13
    assert [name for name, _ in numbers(run.out)] == [name for name, _ in on_page]
    for (name, now), (_, then) in zip(numbers(run.out), on_page):
        assert now == pytest.approx(then, abs=0.03), name


def test_it_learns_what_it_has_not_seen(run: Result) -> None:
    assert dict(numbers(run.out))["loss on the last tenth of the text"] < 1.5
    assert "verified: " in run.out


def test_most_of_the_words_that_it_writes_are_words(run: Result) -> None:
    words = set(re.findall(r"[a-z]{3,}", (GPT / "gpt/text/pride_and_prejudice.txt").read_text().lower()))
    written = re.findall(r"tokens per second\n(.*?)\none step", run.out, re.S)[0]
    assert 390 < len(written) <= 401
    some = re.findall(r"[a-z]{3,}", written.lower())
    share = sum(word in words for word in some) / len(some)
    assert len(some) > 40 and share >= 0.7, written
