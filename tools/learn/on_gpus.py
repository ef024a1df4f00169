"""./learn test --gpu: tries the course on this machine's own GPUs, in at most ten minutes.

Prints a row per step, and writes them to gpu.md in the build folder, together with what this machine
is: the report that .github/ISSUE_TEMPLATE/gpu_numbers.yml asks for. Whatever failed printed more to
gpu.log. What does not fit into LIMIT seconds has "no time left", which is no failure. DEVICE=cpu
rehearses it without a GPU, and STEPS=20 shortens the trainings. $PYTHON names a Python that has
PyTorch.
"""

from __future__ import annotations

import datetime
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable

from commands import BUILD, Result, command
from disturbed import LONG, disturbed
from gpu_memory import jobs, smallest_gpu
from place import ROOT

LIMIT = int(os.environ.get("LIMIT", 570))  # seconds
BEGAN = time.monotonic()
DEVICE = os.environ.get("DEVICE", "cuda")
PYTHON = os.environ.get("PYTHON", "python3")
STEPS = f"--max-steps {os.environ['STEPS']}" if "STEPS" in os.environ else ""
PARITY = "--json --dataset synthetic --samples 2560 --max-steps 40"
REPORT, LOG = BUILD / "gpu.md", BUILD / "gpu.log"


class Failed(Exception):
    """What a step has shown to be wrong."""


class Table:
    """The report, which is complete up to the last finished step whenever it is cut off."""

    def __init__(self, folder: str, gpus: int) -> None:
        self.folder = folder
        self.failed = 0
        self.slower = 1 + gpus / 4  # connecting more GPUs takes longer
        REPORT.write_text("")
        LOG.write_text("")

    def say(self, text: str) -> None:
        print(text, flush=True)
        with REPORT.open("a") as file:
            print(text, file=file)

    def step(
        self,
        what: str,
        work: str | Callable[[int], Result],
        figure: Callable[[Result], str],
        wanted: int = 0,
        limit: float = 90,
    ) -> None:
        """Adds a row. `work` is a shell command, or returns a Result within the seconds that it gets;
        the status must be `wanted`.
        figure(result) says what it showed, and raises an exception if that is wrong."""
        left = LIMIT - (time.monotonic() - BEGAN)
        began = time.monotonic()
        limit *= self.slower
        result: Result | None = None
        status, shown = "no time left", ""
        if left >= 5:
            seconds = int(min(limit, left))
            result = work(seconds) if callable(work) else command(work, self.folder, seconds)
            late = "no time left" if left < limit else "FAILED: cut off"
            status = {wanted: "ok", 124: late, 137: late}.get(result.status, "FAILED")
            try:
                shown = figure(result)
            except Failed as problem:  # even if the rest was cut off
                shown, status = str(problem), "FAILED"
            except (AssertionError, IndexError, KeyError, TypeError, ValueError) as problem:
                shown = str(problem) if status == "ok" else (result.err.splitlines() or [""])[0]
                status = status.replace("ok", "FAILED")
        if status.startswith("FAILED"):
            self.failed += 1
            with LOG.open("a") as file:
                print(f"=== {what}: {status}", *(result or ())[1:], sep="\n", file=file)
        took = time.monotonic() - began
        self.say(f"| {what} | {status} | {took:.0f} | {shown.replace('|', '/')} |")


def ranks_to_try(gpus: int) -> list[int]:
    """1, 2, 4, ... with a GPU for each, and all GPUs. Four ranks share a single GPU."""
    return sorted({1, gpus if gpus > 1 else 4} | {n for n in (2, 4, 8, 16) if n <= gpus})


def training(result: Result) -> str:
    """What the last row of a training says."""
    row = result.rows[-1]
    assert row["device"].startswith(DEVICE), f"on {row['device']}"
    assert row["replicas_identical"], "the replicas differ"
    return (
        f"{row['backend']}, {1e3 * row['step_ms']:.0f} us per step, accuracy "
        f"{row['test_accuracy']}, {row['graph_nodes']} nodes, {row['host_waits_per_step']} waits"
    )


def verified(result: Result) -> str:
    lines: list[str] = re.findall(r"^verified.*", result.out, re.M)
    return lines[0]


def speeds(result: Result) -> str:
    return ", ".join(f"{row['bytes']} B: {row['time_us']:.0f} us, {row['busbw_gbs']:.3g} GB/s" for row in result.rows)


def losses(result: Result) -> list[float]:
    found = [row["loss"] for row in result.rows if "step" in row]
    assert None not in found, f"the loss of step {found.index(None)} is not a finite number"
    return found


def agree(one: list[float], other: list[float]) -> str:
    """Says how far two lists of losses are apart. Only the first four must agree to 1e-5: later, a
    rounding difference moves a number through ReLU's kink, and Adam makes a whole step of it."""
    assert len(one) == len(other), f"{len(one)} losses, and {len(other)}"
    apart = [abs(a - b) / max(abs(b), 0.01) for a, b in zip(one, other)]
    said = f"{max(apart[:4]):.1e} in 4 steps, {max(apart):.1e} in {len(apart)}"
    assert max(apart[:4]) <= 1e-5, f"more than 1e-5: {said}"
    assert max(abs(a - b) for a, b in zip(one, other)) <= 0.02, f"a loss is off by 0.02: {said}"
    return said


def stopped(result: Result) -> str:
    report = re.search(r"^hang: rank \d+ is stopped \(SIGSTOP\)", result.err, re.M)
    assert report, "the report does not name the rank"
    return report[0]


def ctest(result: Result) -> str:
    tests = re.findall(r"Test +#\d+: (\S+) \.+ *(\S+)", result.out)
    bad = [name for name, verdict in tests if verdict not in ("Passed", "***Skipped")]
    passed = [name for name, verdict in tests if verdict == "Passed"]
    said = f"{len(passed)} passed, {len(tests) - len(passed) - len(bad)} skipped"
    begun = re.findall(r"Start +\d+: (\S+)", result.out)
    if unfinished := sorted({*begun} - {name for name, _ in tests}):
        said += f"; not finished: {unfinished}"
    if bad:
        raise Failed(f"{said}; failed: {bad}")
    return said


def describe(title: str) -> list[str]:
    def output(words: str) -> str:
        result = command(words, ROOT)
        return re.sub(r"\x1b\[[0-9;]*m", "", (result.out or result.err).strip())

    return [
        f"# {title}, {datetime.date.today()}",
        "",
        f"Commit {output('git describe --always --dirty')}. One command: `./learn test --gpu`.",
        "",
        "```",
        output("nvidia-smi --query-gpu=name,driver_version --format=csv,noheader"),
        "",
        output("nvidia-smi topo -m"),
        "",
        output("./learn doctor"),
        "```",
        "",
    ]


def main() -> None:
    def run(ranks: int, program: str) -> str:
        return f"mpirun -np {ranks} $BIN/{program} --device {DEVICE}"

    first = command(f"{run(1, 'ddp_training')} --max-steps 1", "/tmp")  # says how many GPUs it finds
    found = re.search(r"\((\d+)( emulated)? GPUs? on this host\)", first.out)
    if first.status != 0 or (DEVICE == "cuda" and not found):
        sys.exit(f"{(first.err.splitlines() or ['no GPU'])[0]}\nDEVICE=cpu rehearses this test")
    gpus = int(found[1]) if found else 1
    if found:
        os.environ["GPUS_FOUND"] = found[1]  # for the tests
    title = (
        f"{found[0].strip('()')}{': all times are meaningless' if found[2] else ''}"
        if found
        else "A rehearsal on the CPU"
    )
    most = max(ranks_to_try(gpus))
    references: dict[int, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("CAPTURE_ORDERS", "5")  # each connects twice
        os.environ.setdefault("TEST_CASE_SECONDS", "240")  # a deadlock then ends within our time
        table = Table(folder, gpus)
        for line in describe(title):
            table.say(line)
        table.say("| step | status | seconds | what it showed |\n|---|---|---|---|")
        for n in ranks_to_try(gpus):
            table.step(f"default training, ranks: {n}", f"{run(n, 'ddp_training')} --json {STEPS}", training)
        for how, prefix, flag in (("graphs", "", "--no-graph"), ("epilogues", "DIST_NO_EPILOGUES=1", "")):
            table.step(
                f"the same without {how}, ranks: 1",
                f"{prefix} {run(1, 'ddp_training')} --json {flag} {STEPS}",
                training,
            )
        for program in ("send_recv", "broadcast", "all_reduce"):
            table.step(f"{program}, ranks: {most}", run(most, program), verified)
        for n in sorted({1, most}):

            def keep(result: Result, n: int = n) -> str:
                references[n] = losses(result)
                return f"{len(references[n])} losses"

            def compare(result: Result, n: int = n) -> str:
                return agree(losses(result), references[n])

            table.step(
                f"losses, ranks: {n}, on the CPU", f"mpirun -np {n} $BIN/ddp_training --device cpu {PARITY}", keep
            )
            table.step(
                f"losses, ranks: {n}, {DEVICE} and CPU",
                f"{run(n, 'ddp_training')} {PARITY}",
                compare,
            )
        if command(f"{PYTHON} -c 'import torch; torch.zeros(1, device=\"{DEVICE}\")'").status == 0:
            table.step(
                f"losses, ranks: 1, PyTorch on {DEVICE} and our CPU",
                f"mpirun -np 1 {PYTHON} {ROOT}/bench/peers/pytorch_ddp.py --device {DEVICE} {PARITY}",
                lambda result: agree(losses(result), references[1]),
            )
        else:
            table.say(f"| losses, PyTorch on {DEVICE} | skipped | 0 | {PYTHON} has no such PyTorch |")
        # Gradients are averaged. NCCL has faster ways for sums (CONTRIBUTING.md, "What only a card can tell").
        for op in ("sum", "avg") if gpus > 1 else ():
            for size, times in ("1K", 20), ("1M", 20), ("64M", 3):
                table.step(
                    f"NCCL's all-reduce ({op}), ranks: {gpus}",
                    f"{run(gpus, 'all_reduce_perf')} --json --algorithm nccl --op {op} "
                    f"--min-bytes {size} --max-bytes {size} --iterations {times}",
                    speeds,
                )
        table.step(
            f"one of {most} ranks is stopped",
            lambda seconds: disturbed(
                pathlib.Path(folder),
                most,
                f"{LONG} --timeout 5 --metrics cut.jsonl --device {DEVICE}",
                10,
                lambda _, ranks: os.kill(ranks[-1], signal.SIGSTOP),
                seconds,
            ),
            stopped,
            wanted=86,
        )
        at_a_time = jobs(os.cpu_count() or 2, smallest_gpu())
        table.step(
            "ctest -L gpu",
            f"ctest --test-dir {BUILD} -L gpu -j {at_a_time} --output-on-failure --no-tests=error",
            ctest,
            limit=LIMIT,
        )
    print(f"\nwrote {REPORT}" + (f"; what failed printed more to {LOG}" if table.failed else ""))
    sys.exit(1 if table.failed else 0)


signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # what it has started ends, too
try:
    main()
except OSError as error:
    sys.exit(f"error: {error.filename or 'a file'}: {error.strerror}")
