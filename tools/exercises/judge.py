#!/usr/bin/env python3
"""judge.py PROGRAM [FLAGS...]: judges a solution on several numbers of ranks, and says what is wrong.

Four ranks come first, because they reveal most mistakes and match the pictures. In the last run, groups
of the ranks are judged beside each other, with synchronous sends (--strict), so that MPI buffers nothing.
A solution is done only if the program has written so in its verdict, after all checks: the status of a
job shows only how it ended.

FLAGS are the program's: --trace FILE keeps the messages of the last run, which is the wrong one.

Prints "done" and what the solution sends on 4 ranks, "not started", or "wrong ..." with a hint, and exits
with 0, 3 or 1; with 2 if the program never reached the checks.

    EXERCISE_LOG      a file for what the ranks of the wrong run printed
    EXERCISE_SOURCE   the solution's file, if a hint may come from its text
    EXERCISE_WARNINGS a file with what the compiler said of it
    EXERCISE_RANKS    other runs, for example "4 3"
    EXERCISE_TIMEOUT  how long nothing may move, in seconds (2, and more on a busy machine)
    EXERCISE_WIDTH    of the terminal, at which the answer is wrapped, after EXERCISE_INDENT columns
"""
from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import hang_hints  # noqa: E402
from source_text import code_of, copies_elements, has_static_variable  # noqa: E402

RUNS = ["4", "1", "2", "3", "7", "5 --strict --groups 2"]  # a pure function needs only the first
LONGEST_CHECK = 6  # times the patience, even if it keeps calling MPI
MOST_PRINTED = 10_000_000  # bytes
LAST_LINES = 5

ENDS = "a solution returns to its caller; it neither ends the program nor starts another one."
CRASH = ("this is nearly always an index out of bounds, memory that is gone while MPI still uses it (a buffer that "
         "ends before its wait), or a missing return; think of ranks with nothing to do, and of sizes 0 and 1.")


@dataclasses.dataclass(frozen=True)
class Run:
    """A job that has ended."""
    setting: str
    status: int
    verdict: str  # what the program wrote
    log: str  # what mpirun and the ranks printed
    ended: str  # why we ended it, or ""
    places: list[hang_hints.Place]  # of the world's ranks, in the groups that are judged


def patience() -> float:
    """How long nothing may move, in seconds. On a busy machine, a rank may have to wait for a processor."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return 2.0 * min(max(busy / 2, 1), 10)


class Job:
    """A run under way. All its processes have EXERCISE_JOB in their environment, however they were started."""

    def __init__(self, folder: pathlib.Path, setting: str, words: list[str]) -> None:
        self.folder = folder
        self.setting = setting
        self.patience = float(os.environ.get("EXERCISE_TIMEOUT") or patience())
        ranks, *flags = setting.split()
        self.verdict.write_text("")
        environment = {**os.environ, "EXERCISE_SCRATCH": str(folder), "EXERCISE_JOB": str(folder),
                       "EMULATED_GPUS": "7",  # one per rank
                       "OMPI_MCA_odls_base_sigkill_timeout": "0"}  # a failed job has nothing to clean up
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                ["mpirun", "--tag-output", "-np", ranks, words[0], "--verdict", str(self.verdict), "--timeout",
                 f"{self.patience:.1f}", *flags, *words[1:]],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment)

    @property
    def verdict(self) -> pathlib.Path:
        return self.folder / "verdict"

    @property
    def log(self) -> pathlib.Path:
        return self.folder / "output"

    def processes(self) -> Iterator[int]:
        mark = f"EXERCISE_JOB={self.folder}\0".encode()
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes() and int(path.parent.name) != self.process.pid:
                    yield int(path.parent.name)
            except OSError:  # it has ended, or is somebody else's
                continue

    def kill(self, mpirun: bool = True) -> None:
        for _ in range(20):
            remaining = [*self.processes(), *([self.process.pid] if mpirun and self.process.poll() is None else [])]
            for pid in remaining:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:  # it has ended
                    pass
            if not remaining:
                return

    def has_ranks(self) -> bool:
        """Whether mpirun has children."""
        try:
            return any(path.read_text() for path
                       in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/children"))
        except OSError:  # one of its threads ends at this moment
            return True

    def end(self, why: str) -> str:
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()
        return why

    def watch(self) -> str:
        """Waits for the end, or ends it: if a check, which begins with a new verdict, takes too long, if it
        prints without end, and if a process outlives the ranks, for which mpirun would wait."""
        seen, since, lonely = "", time.monotonic(), 0
        while True:
            try:
                self.process.wait(0.25)
                return ""
            except subprocess.TimeoutExpired:
                pass
            now = self.verdict.read_text()
            if now != seen:
                seen, since = now, time.monotonic()
            if self.log.stat().st_size > MOST_PRINTED:
                return self.end("it printed more than 10 MB")
            if time.monotonic() - since > LONGEST_CHECK * self.patience:
                return self.end(f"{LONGEST_CHECK * self.patience:.0f} s later it is still calling MPI")
            lonely = lonely + 1 if seen and not self.has_ranks() and any(self.processes()) else 0
            if lonely > 2:
                self.kill(mpirun=False)
                self.process.wait()
                return "a process that it started was still running"

    def finish(self) -> Run:
        ended = self.watch()
        self.kill()
        places = self.folder / "verdict.places"
        return Run(self.setting, self.process.returncode, self.verdict.read_text(),
                   self.log.read_text(errors="replace"), ended,
                   hang_hints.places(places.read_text()) if places.exists() else [])


def printed(log: str, rank_of: dict[int, int]) -> list[str]:
    """What the ranks printed, without what the watch and MPI say about them."""
    lines = []
    log = log.partition("*** Process received signal")[0]  # then MPI prints the stacks of all ranks at once
    for rank, text in re.findall(r"^\[[^],]*,(\d+)\]<std(?:out|err)>: ?(.*)$", log, re.M):
        if text and not re.match(r"hang: |trace: |WRONG: |\[[^] ]*:\d+\]|terminate called|  what\(\)|-{20}", text):
            lines.append(f"rank {rank_of.get(int(rank), rank)}: {text}")
    return lines


def warnings() -> list[str]:
    """What the compiler has warned of in the solution."""
    path = os.environ.get("EXERCISE_WARNINGS", "")
    text = pathlib.Path(path).read_text(errors="replace") if os.path.exists(path) else ""
    found = re.findall(r"(\d\d_\w+/exercise/\w+\.hpp:\d+):\d+: warning: (.*)", text)
    return [f"(the compiler warns: {place}: {what})" for place, what in found[:2]]


def crash_in(log: str) -> str:
    found = re.search(r"Signal: [A-Za-z ]+[a-z]|terminate called.*|fatal: .*", log)
    return found[0] if found else ""


def hint_of(verdict: str, kind: str) -> str:
    """The check's own hint for this kind of end, if it has one."""
    found = re.search(rf"^hint if {kind}: (.*)$", verdict, re.M)
    return found[1] if found else ""


def why_it_ended(run: Run) -> tuple[str, str]:
    """What stopped a check that did not finish, and the hint."""
    plain = re.search(r"^hint: (.*)$", run.verdict, re.M)
    hint = plain[1] if plain else ""
    if "still calling MPI" in run.ended:
        return run.ended, "one of its loops never ends."
    if run.ended.startswith("it printed"):
        return run.ended, "print less: one line per rank tells more."
    if run.ended:
        return run.ended, hint
    report = hang_hints.judged(run.log, run.places)
    crash = crash_in(run.log)
    if "out of memory" in crash:
        return crash, "it allocates without end, or its size is wrong."
    if crash:
        return f"it crashed: {crash}", hint_of(run.verdict, "crash") or CRASH
    if not report:
        return f"a rank ended the program (status {run.status})", ENDS
    kind = hang_hints.kind_of(report)
    if run.verdict.startswith("wrong: "):  # a pure function, which knows nothing of ranks
        report = ["it has not returned"]
    return "\n".join(report), hint_of(run.verdict, kind) or hang_hints.HINTS.get(kind) or hint


def answer_to(run: Run) -> str:
    """What is wrong, in the form of the program's verdict."""
    source = os.environ.get("EXERCISE_SOURCE")
    code = code_of(pathlib.Path(source).read_text(errors="replace")) if source else ""
    first, *body = [line for line in run.verdict.splitlines() if not line.startswith("hint if ")]
    if first == "not started":
        return first
    if first == "done":
        first = f"wrong: with mpirun -np {run.setting}, all checks pass, but then the program does not end as it should [end]"
        body = [f"  {run.ended or crash_in(run.log) or f'it ended with status {run.status}'}", f"hint: {ENDS}"]
    elif "  it did not finish" in body:
        why, hint = why_it_ended(run)
        body = [*(f"  {line}" for line in why.splitlines()), f"hint: {hint}"]
    if "MPI_COMM_WORLD" in code:
        body = [line for line in body if not line.startswith("hint: ")]
        body.append("hint: it uses MPI_COMM_WORLD. The ranks that call this function are those of comm, which may be "
                    "fewer and in another order: pass comm.get() to MPI.")
    elif has_static_variable(code):
        body.append("(it has a static variable, which keeps its value from one call to the next.)")
    if copies_elements(code):
        body.append("(memcpy counts bytes: n floats are n * sizeof(float).)")
    body += warnings()
    if "--strict" in run.setting and "  it did not finish" in run.verdict.splitlines():
        body.append("(this run used --strict, so MPI_Send did not buffer: a solution must not depend on MPI's buffering)")
    lines = printed(run.log, {world: place.rank for world, place in enumerate(run.places)})
    log = os.environ.get("EXERCISE_LOG")
    if log:
        pathlib.Path(log).write_text("\n".join(lines) + "\n" + run.log)
    if lines:
        where = f", and all of it in {os.path.relpath(log)}" if log else ""
        body += [f"the last that it printed{where}:", *(f"  {line[:200]}" for line in lines[-LAST_LINES:])]
    return "\n".join([first, *body])


def wrapped(answer: str) -> str:
    width = int(os.environ.get("EXERCISE_WIDTH") or 0)
    if not width:
        return answer
    first = " " * int(os.environ.get("EXERCISE_INDENT") or 0)  # is already on the line
    lines = []
    for number, line in enumerate(answer.splitlines()):
        begin = first if number == 0 else line[:len(line) - len(line.lstrip())]
        rest = begin if line.startswith("  ") and number else "  "
        lines += textwrap.wrap(line.strip(), max(width, 40), initial_indent=begin, subsequent_indent=rest,
                               break_long_words=False) or [""]
    return "\n".join(lines)[len(first):]


def runs() -> list[str]:
    text = os.environ.get("EXERCISE_RANKS", "")
    return text.split(",") if "," in text or "--" in text else text.split() or RUNS


def judge(words: list[str], folder: pathlib.Path) -> tuple[int, str]:
    """The status and the answer."""
    costs = ""
    for setting in runs():
        job = Job(folder, setting, words)
        try:
            run = job.finish()
        finally:
            job.kill()
        first, *rest = run.verdict.splitlines() or [""]
        if not first:  # it never reached the checks
            return 2, run.log
        if first != "done" or run.status != 0 or run.ended:
            answer = answer_to(run)
            return 3 if answer == "not started" else 1, answer
        if setting == "4":
            costs = "".join(f"\n{line}" for line in rest if line != "pure")
        if "pure" in rest:
            break
    return 0, "done" + costs


def main(words: list[str]) -> int:
    def stop(number: int, _: object) -> None:
        sys.exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    folder = pathlib.Path(tempfile.mkdtemp())  # checks may write here
    try:
        status, answer = judge(words, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(wrapped(answer), file=sys.stderr if status == 2 else sys.stdout)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
