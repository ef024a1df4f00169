"""./learn report makes a page of a real run that holds the files' numbers, needs no network, keeps
text as text, and renders in a browser."""

from __future__ import annotations

import html.parser
import json
import pathlib
import re
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from browser import Browser
from programs import BROWSER, ROOT, command, runs

Run = tuple[pathlib.Path, list[dict[str, Any]]]

EVIL = "<script>document.title='hacked'</script><img src=https://example.com/x onerror=1>\u2028&\""


class Page(html.parser.HTMLParser):
    """What a page holds: exact numbers, texts, tags and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.numbers: set[float] = set()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attributes
        if tag == "data":
            value = dict(attributes)["value"]
            assert value, self.get_starttag_text()
            self.numbers.add(float(value))

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def report(*words: object, cwd: pathlib.Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "learn", "report", *map(str, words)], text=True, capture_output=True, cwd=cwd)


def page_of(*words: object) -> Page:
    """The page that ./learn report says it wrote."""
    done = report(*words)
    assert done.returncode == 0, done.stderr
    return Page(pathlib.Path(done.stdout.split(" ", 1)[1].strip()).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The folder with a run's run.jsonl and its trace.json, and the run's rows."""
    folder = tmp_path_factory.mktemp("report")
    result = runs(
        3,
        "ddp_training --json --batch-size 32 --layers 784,40,30,10 --max-steps 5 --accumulate 2"
        " --bucket-cap-mb 0.01 --no-overlap --device cpu --trace trace.json",
        folder,
    )
    (folder / "run.jsonl").write_text(result.out)
    return folder, result.rows


def test_the_page_holds_the_numbers_of_the_files(run: Run) -> None:
    folder, (*steps, final) = run
    page = page_of(folder / "run.jsonl", "--trace", folder / "trace.json")
    assert "\nreplicas identical\nyes\n" in page.text  # settings are words
    assert not re.search(r"\b(None|True|False)\b", page.text)
    wanted = [x for key, x in final.items() if type(x) in (int, float) and key != "hideable_comm_ms"]
    wanted += [p["l2"] for p in final["parameters"].values()] + [steps[-1]["loss"]]
    assert not {float(x) for x in wanted} - page.numbers
    for step in steps:
        assert f"step {step['step']}, epoch {step['epoch']}: loss {step['loss']!r}" in page.text
    for name, p in final["parameters"].items():
        assert name in page.text and p["sha256"] in page.text
    for rank in range(3):
        for name in ("forward", "backward", "MPI_", "all_reduce"):
            assert re.search(f"^rank {rank}: {name}.* ms, from ", page.text, re.M)
    for said in (
        "Loss",
        "Where a step",
        "Two steps",
        "Who sent",
        "Memory per rank",
        "Settings",
        "Parameters",
        "Steps of typical length. Point at a block to see what it is. A step has 2 forward passes.",
    ):
        assert f"\n{said}" in page.text


def test_the_messages_are_those_of_the_trace(run: Run) -> None:
    folder, (*_, final) = run
    page = page_of(folder / "run.jsonl", "--trace", folder / "trace.json")
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    gradients: dict[int, int] = {}
    for e in json.loads((folder / "trace.json").read_text())["traceEvents"]:
        args = e.get("args", {})
        if e["name"] in ("MPI_Send", "MPI_Isend", "MPI_Sendrecv"):
            messages, total = pairs.get((e["pid"], args["to"]), (0, 0))
            pairs[e["pid"], args["to"]] = messages + 1, total + args.get("bytes", 0)
            if "tensor" in args:
                gradients[e["pid"]] = gradients.get(e["pid"], 0) + args["bytes"]
    assert max(gradients.values()) == final["bytes_sent_per_step"] * final["steps"]
    for (source, to), (messages, total) in pairs.items():
        assert f"rank {source} to rank {to}\n{messages:,}\n" in page.text and float(total) in page.numbers


def test_each_tested_epoch_has_its_accuracy(tmp_path: pathlib.Path) -> None:
    runs(2, "ddp_training --layers 784,10 --max-steps 140 --metrics m.jsonl", tmp_path)
    tested = [
        row["test_accuracy"]
        for row in map(json.loads, (tmp_path / "m.jsonl").read_text().splitlines())
        if "step" not in row
    ]
    text = page_of(tmp_path / "m.jsonl").text
    first, second = (f"{100 * accuracy:.2f} %" for accuracy in tested)
    assert re.search(f"\ntest accuracy\n0\n63\n.*\n{first}\n1\n63\n.*\n{second}\n2\n14\n", text, re.S)


def test_the_default_device(tmp_path: pathlib.Path) -> None:
    """On a GPU, most of these steps are replayed as one graph, whose parts are not timed."""
    result = runs(1, "ddp_training --json --max-steps 9 --trace trace.json", tmp_path)
    (tmp_path / "run.jsonl").write_text(result.out)
    page = page_of(tmp_path / "run.jsonl", "--trace", tmp_path / "trace.json")
    assert "\nWhere a step" in page.text and result.rows[-1]["step_ms"] in page.numbers


def test_missing_data_is_reported(tmp_path: pathlib.Path) -> None:
    metrics = tmp_path / "m.jsonl"
    metrics.write_text(
        '{"step":7,"epoch":1,"loss":0.5}\n{"step":8,"epoch":1,"loss":null}\n'
        '{"step":9,"epoch":1,"loss":0.25}\n{"step":10,"ep'
    )
    page = page_of(metrics)
    assert (tmp_path / "m.html").exists() and {0.25, 0.375} <= page.numbers
    for said in (
        "has no final line",
        "No trace was given",
        "incomplete and was left out",
        "Steps without a finite loss: 1",
    ):
        assert said in page.text


@pytest.mark.parametrize("odd", [-1, 5e-324, 1e300])
@pytest.mark.parametrize("only", [None, "step_ms", "comm_ms"])
def test_odd_times_are_left_out_or_shown(tmp_path: pathlib.Path, odd: float, only: str | None) -> None:
    keys = ("step_ms", "comm_ms", "compute_ms", "exposed_comm_ms", "optimizer_ms", "data_ms")
    parts = ("parameters", "gradients", "optimizer", "activations")
    final = {
        "final": True,
        "ranks": 3,
        "memory": {f"{key}_bytes": odd for key in parts},
        **{key: odd if only in (None, key) else 1 for key in keys},
    }
    (tmp_path / "m.jsonl").write_text('{"step":7,"epoch":1,"loss":5e-324}\n' + json.dumps(final))
    assert not re.search(r"\b(inf|nan)\b|-1", page_of(tmp_path / "m.jsonl").text)


@pytest.mark.parametrize("comm, exposed, share", [(10, 2, "80.0 %"), (4, 4, "0.0 %"), (4, 5, "0.0 %")])
def test_hidden_is_what_is_not_exposed(tmp_path: pathlib.Path, comm: float, exposed: float, share: str) -> None:
    final: dict[str, float] = {
        "final": True,
        "ranks": 2,
        "step_ms": 20,
        "compute_ms": 9,
        "optimizer_ms": 1,
        "data_ms": 1,
    }
    final |= {"comm_ms": comm, "exposed_comm_ms": exposed}
    (tmp_path / "m.jsonl").write_text('{"step":7,"epoch":1,"loss":1}\n' + json.dumps(final))
    text = " ".join(page_of(tmp_path / "m.jsonl").text.split())
    assert f"Backward hid {share} of that time." in text


def test_hostile_strings_stay_text(run: Run, tmp_path: pathlib.Path) -> None:
    folder, _ = run
    final = {
        "final": True,
        "ranks": 7,
        "device": EVIL,
        EVIL: EVIL,
        "odd_number": 10**400,
        "memory": [EVIL],
        "parameters": {EVIL: {"l2": 1, "sha256": EVIL}, "1": 5},
        "test_accuracy": EVIL,
        "step_ms": True,
    }
    steps = [{"step": i, "epoch": EVIL, "loss": loss} for i, loss in enumerate([1e400, "x", 3, None])]
    path = tmp_path / "<b onclick=x>&.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in [*steps, final]), encoding="utf-8")
    trace = json.loads((folder / "trace.json").read_text())
    for e in trace["traceEvents"]:
        e["name"] = e["name"].replace("all_reduce", EVIL)
        e.get("args", {}).update({"tensor": EVIL} if e["ph"] == "X" else {})
    trace["otherData"]["droppedEvents"] = {EVIL: EVIL}
    (tmp_path / "evil.json").write_text(json.dumps(trace), encoding="utf-8")
    page = page_of(path, "--trace", tmp_path / "evil.json")
    assert not page.tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "a"}
    assert not [key for key, _ in page.attributes if key.startswith("on") or key in ("src", "href", "srcset")]
    assert page.text.count("<script>document.title") > 3 and "but the run had 7" in page.text


STEP = '{"step":0,"epoch":0,"loss":1.5}\n'


@pytest.mark.parametrize(
    "content, error",
    [
        (None, "bad: No such file"),
        ("hello\n", "bad: line 1 is not a JSON object"),
        ("[" * 100000, "bad: line 1 is not a JSON object"),
        (STEP + "[1]\n", "bad: line 2 is not a JSON object"),
        (b"\xff\xfe\n", "bad: is not UTF-8 text"),
        ("", "bad: has no training step"),
        ('{"final":true,"steps":3}\n', "bad: has no training step"),
        ('{"step":"a"}\n', "bad: has no training step"),
    ],
)
def test_bad_runs_are_refused(tmp_path: pathlib.Path, content: str | bytes | None, error: str) -> None:
    if content is not None:
        (tmp_path / "bad").write_bytes(content if isinstance(content, bytes) else content.encode())
    refused([tmp_path / "bad", "-o", tmp_path / "page"], error, tmp_path)


@pytest.mark.parametrize(
    "words, error",
    [
        ("good --trace none", "none: No such file"),
        ("good --trace good", "good: is not a trace"),
        ("good --trace empty", "empty: is not a trace"),
        ("good -o no/such.html", "such.html: cannot be written"),
        ("good -o folder", "folder: is not a file"),
        ("good -o good", "is the input"),
        ("", "RUN.jsonl"),
        ("good --tracks good", "--tracks"),
    ],
)
def test_bad_usage_is_refused(tmp_path: pathlib.Path, words: str, error: str) -> None:
    (tmp_path / "good").write_text(STEP)
    (tmp_path / "empty").write_text('{"traceEvents":[{"ph":"X"},3]}')
    (tmp_path / "folder").mkdir()
    refused(words.split(), error, tmp_path)


def refused(words: Sequence[object], error: str, folder: pathlib.Path) -> None:
    """Status 2, one line that names the file, and nothing written."""
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    done = report(*words, cwd=folder)
    assert done.returncode == 2 and re.fullmatch(r"error: [^\n]*\n", done.stderr) and error in done.stderr
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_full_disk_leaves_the_old_page(run: Run) -> None:
    folder, _ = run
    (folder / "old.html").write_text("old")
    done = command(f"ulimit -f 1; {ROOT}/learn report run.jsonl -o old.html", folder)
    assert done.status == 2 and "old.html: cannot be written: File too large" in done.err
    assert (folder / "old.html").read_text() == "old" and not [*folder.glob("*/")]
    assert command(f"umask 027; {ROOT}/learn report run.jsonl -o old.html", folder).status == 0
    assert (folder / "old.html").stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
@pytest.mark.parametrize("theme, paper", [("dark", "rgb(20, 23, 27)"), ("light", "rgb(246, 245, 241)")])
def test_a_browser_shows_it(run: Run, theme: str, paper: str) -> None:
    folder, rows = run
    page_of(folder / "run.jsonl", "--trace", folder / "trace.json", "-o", folder / "page.html")
    with Browser() as page:
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        page.call("Emulation.setDeviceMetricsOverride", width=500, height=900, deviceScaleFactor=1, mobile=False)
        page.open(f"file://{folder}/page.html")
        assert page.of("Log.entryAdded") == []
        assert page.run("document.documentElement.scrollWidth <= innerWidth")
        assert page.run("getComputedStyle(document.body).backgroundColor") == paper
        drawn = page.run(
            "[...document.querySelectorAll('svg')].map((drawing) => "
            "drawing.querySelectorAll('rect, path, circle').length)"
        )
        assert len(drawn) == 2 and min(drawn) > len(rows)
        page.run("document.head.appendChild(document.createElement('script')).text = 'window.ran = 1'")
        assert page.run("window.ran") is None  # the page's own rule forbids scripts


@pytest.mark.parametrize("name, why", [("", "no file is named: "), (".", ".: "), ("/", "/: ")])
def test_what_is_no_file_is_named(name: str, why: str) -> None:
    done = report(name)
    assert done.returncode == 2 and done.stderr == f"error: {why}Is a directory\n", done
