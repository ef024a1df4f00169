"""One run of a solution under mpirun, which ends whatever the solution does."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

import hang_hints

PATIENCE = 2.0  # seconds
FREED = 0x5A  # glibc fills memory that is freed with such bytes: as a float, 1.5e16 (message_checks.hpp)
LONGEST_CHECK = 6  # times the patience, of processor time, even if it keeps calling MPI
LONGEST_WAIT = 90  # times the patience, on a machine that has no processor for it
MOST_PRINTED = 10_000_000  # bytes that are kept, but for the last ones
LAST_PRINTED = 100_000
FAR_TOO_MUCH = 30_000_000  # for mpirun to keep up with: the ranks wait for it


@dataclasses.dataclass(frozen=True)
class Run:
    """A job that has ended."""

    setting: str
    status: int
    verdict: str  # what the program wrote
    log: str  # what mpirun and the ranks printed
    ended: str  # why we ended it, or ""
    places: list[hang_hints.Place]  # of the world's ranks, in the groups that are judged
    call: str = ""  # the arguments of the call at which the slowest rank is, if the check says so
    printed: int = 0  # bytes
    unjudged: str = ""  # why we ended it without knowing whether it is wrong, or ""
    mistake: str = ""  # the verdict on a mistake that was seen before the check stopped, if it did


def adopt() -> None:
    """From here on, a process below us whose parent has ended becomes our child, whatever its environment is, and
    we end if our own parent does (prctl(2), which only Linux has)."""
    set_child_subreaper, set_parent_death_signal = 36, 1
    prctl = ctypes.CDLL(None).prctl
    prctl(set_child_subreaper, 1, 0, 0, 0)
    prctl(set_parent_death_signal, int(signal.SIGTERM), 0, 0, 0)
    Job.adopts = True


def descendants() -> set[int]:
    """Of this process, but for those that have ended and that nobody has waited for."""
    children: dict[int, list[int]] = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may hold anything.
            state, parent = path.read_bytes().rpartition(b") ")[2].split()[:2]
        except (OSError, ValueError):  # it has ended
            continue
        if state not in b"ZX":
            children.setdefault(int(parent), []).append(int(path.parent.name))
    found: set[int] = set()
    left = [os.getpid()]
    while left:
        new = set(children.get(left.pop(), [])) - found
        found |= new
        left += new
    return found


def patience() -> float:
    """How long nothing may move, in seconds. On a busy machine, a rank may have to wait for a processor."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return PATIENCE * min(max(busy / 2, 1), 10)


class Work(NamedTuple):
    """Of some processes, in seconds: proc(5) and the kernel's sched-stats.rst."""

    processor: float  # of all together
    queued: float  # the longest that one of them could have run, but had no processor

    def since(self, before: Work) -> Work:
        return Work(self.processor - before.processor, self.queued - before.queued)


def work_of(pids: Iterable[int]) -> Work:
    processor, queued = 0.0, 0.0
    for pid in pids:
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
            processor += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            queued = max(queued, int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[1]) * 1e-9)
        except (OSError, ValueError, IndexError):  # it has ended, or this kernel does not count
            continue
    return Work(processor, queued)


def verdict_on_time(wall: float, work: Work, ranks: int, patience: float, quick: float) -> str:
    """Whether a check that has run for `wall` seconds is to be ended: "slow" if the solution takes too long, "busy" if
    nobody can tell, because the machine gave it no processor. On a quiet machine, as many ranks as there are
    processors for compute at the same time, and nothing may take longer than LONGEST_CHECK * patience."""
    if work.processor > LONGEST_CHECK * quick * min(ranks, os.cpu_count() or 1):
        return "slow"
    if wall > LONGEST_CHECK * patience and work.queued < wall / 2:
        return "slow"
    return "busy" if wall > LONGEST_WAIT * quick else ""


def text_in(path: pathlib.Path) -> str:
    r"""What a solution has written may be any bytes: those that are not UTF-8 become \xNN."""
    return path.read_text(errors="backslashreplace")


class Job:
    """A run under way. Its processes are those below us, if we adopt() them: EXERCISE_JOB in their environment finds
    them elsewhere, unless a solution starts them without it."""

    adopts = False  # all that is below this process belongs to the job, of which there is one at a time

    def __init__(self, folder: pathlib.Path, setting: str, words: list[str]) -> None:
        self.folder = folder
        self.setting = setting
        given = float(os.environ.get("EXERCISE_TIMEOUT") or 0)
        self.patience, self.quick = given or patience(), given or PATIENCE
        self.printed, self.tail, self.unjudged = 0, b"", ""
        ranks, *flags = setting.split()
        self.ranks = int(ranks)
        self.verdict.write_text("")
        for old in [*folder.glob("verdict.call*"), *folder.glob("verdict.mistake*")]:
            old.unlink()
        environment = {
            **os.environ,
            "EXERCISE_SCRATCH": str(folder),
            "EXERCISE_JOB": str(folder),
            "EMULATED_GPUS": "7",  # one per rank
            "GLIBC_TUNABLES": f"glibc.malloc.tcache_count=0:glibc.malloc.perturb={FREED}",
            "OMPI_MCA_odls_base_sigkill_timeout": "0",
        }  # a failed job has nothing to clean up
        command = ["mpirun", "--tag-output", "-np", ranks, words[0], "--verdict", str(self.verdict)]
        # Opened here: if Ctrl-C ends this program now, the folder may be gone before the thread begins.
        log = open(self.log, "wb")
        self.process = subprocess.Popen(
            [*command, "--timeout", f"{self.patience:.1f}", *flags, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        self.reader = threading.Thread(target=self.read, args=(log,), daemon=True)
        self.reader.start()

    @property
    def verdict(self) -> pathlib.Path:
        return self.folder / "verdict"

    @property
    def log(self) -> pathlib.Path:
        return self.folder / "output"

    def read(self, log: BinaryIO) -> None:
        """Keeps what it prints, but for the middle if that is very much."""
        assert self.process.stdout is not None
        with log:
            while piece := os.read(self.process.stdout.fileno(), 1 << 16):
                kept = piece[: max(MOST_PRINTED - self.printed, 0)]
                log.write(kept)
                log.flush()
                self.printed += len(piece)
                self.tail = (self.tail + piece[len(kept) :])[-LAST_PRINTED:]

    def processes(self) -> Iterator[int]:
        below = descendants() if self.adopts else set()
        mark = f"EXERCISE_JOB={self.folder}\0".encode()
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            pid = int(path.parent.name)
            try:
                if pid != self.process.pid and (pid in below or mark in path.read_bytes()):
                    yield pid
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
                break
        if mpirun:
            self.reader.join(1)  # what it printed has come to its end

    def has_ranks(self) -> bool:
        """Whether mpirun has children."""
        try:
            return any(path.read_text() for path in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/children"))
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
        seen, since, began, lonely, before = "", time.monotonic(), False, 0, Work(0, 0)
        while True:
            try:
                self.process.wait(0.25)
                return ""
            except subprocess.TimeoutExpired:
                pass
            now = text_in(self.verdict)
            work = work_of(self.processes())
            if now != seen:
                seen, since, before = now, time.monotonic(), work
            wall = time.monotonic() - since
            over = verdict_on_time(wall, work.since(before), self.ranks, self.patience, self.quick)
            if over == "busy":
                load = os.getloadavg()[0]
                self.unjudged = f"not finished after {wall:.0f} s (this machine is busy: load {load:.0f})"
                return self.end(self.unjudged)
            if self.printed > FAR_TOO_MUCH:
                return self.end("it printed")
            if over == "slow":
                return self.end(f"{wall:.0f} s later it has not returned")
            began = began or bool(seen) or self.has_ranks()
            lonely = lonely + 1 if began and not self.has_ranks() and any(self.processes()) else 0
            if lonely > 2:
                self.kill(mpirun=False)
                self.process.wait()
                return "a process that it started was still running"

    def slowest_call(self) -> str:
        """Each rank's file has the number and the arguments of its call; it may have been killed while it wrote."""
        texts = [text_in(path) for path in self.folder.glob("verdict.call*")]
        found = [re.fullmatch(r"(\d+) (.*)\n", text) for text in texts]
        if not found or not all(found):
            return ""
        return min(((int(call[1]), call[2]) for call in found if call and call[2]), default=(0, ""))[1]

    def finish(self) -> Run:
        ended = self.watch()
        self.kill()
        self.reader.join(5)
        with open(self.log, "ab") as log:
            log.write(self.tail)
        places = self.folder / "verdict.places"
        return Run(
            self.setting,
            self.process.returncode,
            text_in(self.verdict),
            text_in(self.log),
            ended,
            hang_hints.places(text_in(places)) if places.exists() else [],
            self.slowest_call(),
            self.printed,
            self.unjudged,
            next(filter(None, map(text_in, sorted(self.folder.glob("verdict.mistake*")))), ""),
        )
