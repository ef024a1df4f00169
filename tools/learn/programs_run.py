"""Starting programs on ranks: lessons, perf, break, and what has no lesson."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import threading
from typing import IO

import console
from build_folder import Build
from console import Failed, did_you_mean, err, is_terminal, say
from machine import end_with_us, small_address_space
from place import BUILD, LESSONS, ROOT, Lesson, mpi_environment, short

HUNG = 86  # the watch's status
SILENCE = 20  # seconds without a word from an mpirun that may wait in vain


def lesson_of(word: str, command: str, last: int = 5) -> Lesson:
    if not re.fullmatch(f"[1-{last}]", word):
        raise Failed(f"{command}: needs a lesson from 1 to {last}")
    return LESSONS[int(word) - 1]


def at_most(count: int, command: str, words: list[str]) -> None:
    if len(words) > count:
        raise Failed(f"{command}: unexpected words: {' '.join(words[count:])}")


def ranks_and_flags(words: list[str]) -> tuple[str, list[str]]:
    """What [-n RANKS] [-- FLAGS] says."""
    ranks, flags = "4", []
    while words:
        if words[0] == "-n":
            if len(words) < 2:
                raise Failed("-n: needs a number of ranks")
            ranks, words = words[1], words[2:]
        elif words[0] == "--":
            flags, words = words[1:], []
        else:
            raise Failed(f"{words[0]}: unknown flag; put the program's own flags after --")
    if not re.fullmatch("[1-9][0-9]{0,4}", ranks):
        raise Failed(f"-n: must be a positive number of ranks, not '{ranks}'")
    return ranks, flags


def run(level: int, program: str, words: list[str], *first: str) -> int:
    """Builds and runs build/bin/PROGRAM with the flags `first` and what `words` say, and returns its status."""
    ranks, flags = ranks_and_flags(words)
    flags = [*first, *flags]
    if "--json" in flags:  # standard output gets only the program's lines
        if console.OUTPUT_IS_CLOSED:
            console.no_output()
        say.descriptor = 2
    Build(BUILD).targets(level, program.replace("/", "_"))
    environment = mpi_environment()
    # mpirun gives its ranks a pseudo-terminal, so only we know whether standard error is a terminal.
    if is_terminal(2):
        environment["LEARN_TERMINAL"] = "1"
    environment["LEARN_RANKS"] = ranks  # a program that is alone, but should not be, says so
    say(f"mpirun -np {ranks} {short(BUILD)}/bin/{program}{''.join(' ' + flag for flag in flags)}")
    say()
    return started(["mpirun", "-np", ranks, f"{BUILD}/bin/{program}", *flags], environment)


def started(words: list[str], environment: dict[str, str]) -> int:
    """Runs mpirun to its end, and returns its status. If the disk of standard output fills up, mpirun would
    lose lines and say nothing, so we write to files ourselves; in a step of Slurm, to know whether it says
    anything. What mpirun says between lines of dashes after a sentence of ours is left out."""
    in_slurm_step = "SLURM_STEP_ID" in os.environ
    passes_on = in_slurm_step
    try:
        passes_on = passes_on or stat.S_ISREG(os.fstat(1).st_mode)
    except OSError:
        pass
    asked: list[int] = []  # to stop, perhaps before mpirun has been started
    jobs: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _: object) -> None:
        asked.append(number)
        for running in jobs:
            running.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    job = subprocess.Popen(
        words,
        env=environment,
        stdout=subprocess.PIPE if passes_on else None,
        stderr=subprocess.PIPE,
        preexec_fn=end_with_us,
    )
    jobs.append(job)
    for request in asked:
        job.send_signal(request)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal also sends it to mpirun, which ends its ranks
    lost: list[str] = []
    heard = threading.Event()
    readers = [threading.Thread(target=pass_errors_on, args=(job.stderr, heard))]
    if passes_on:
        readers.append(threading.Thread(target=copy, args=(job.stdout, lost, heard)))
    if in_slurm_step:
        readers.append(threading.Thread(target=wonder, args=(heard,)))
    for reader in readers:
        reader.start()
    status = job.wait()
    heard.set()
    for reader in readers:
        reader.join()
    if lost:
        err(lost[0])
        return 1
    if status not in (0, 1, 2) and (why := small_address_space()):
        err(f"note: {why}")
    return status if status >= 0 else 128 - status


def wonder(heard: threading.Event) -> None:
    if not heard.wait(SILENCE):
        err(
            f"note: mpirun has said nothing for {SILENCE} s. In a step of Slurm, it may start its ranks by a step of "
            "its own, which waits until this one ends: end this one, and type the same under salloc"
        )


def copy(source: IO[bytes] | None, lost: list[str], heard: threading.Event) -> None:
    assert source is not None
    while data := os.read(source.fileno(), 1 << 16):
        heard.set()
        try:
            while data and not lost:
                data = data[os.write(1, data) :]
        except OSError as error:
            lost.append(f"error: standard output: {error.strerror}")


OUR_SENTENCE = re.compile(rb"(\[rank \d+\] )?(error|fatal|hang|WRONG): ")
DASHES = re.compile(rb"-{60,}\s*")
THEIR_NEWS = re.compile(rb"mpirun|prterun|Primary job|MPI_ABORT")


def pass_errors_on(source: IO[bytes] | None, heard: threading.Event) -> None:
    """Copies standard error, line by line where lines are whole. After a sentence of ours, what Open MPI
    says of the end between two lines of dashes helps nobody."""
    assert source is not None
    pending, ours, block = b"", False, b""  # block: since a line of dashes, if there was one
    while True:
        data = os.read(source.fileno(), 1 << 16)
        if data:
            heard.set()
        pending += data
        *lines, pending = pending.split(b"\n")
        shown = b""
        for line in lines:
            ours = ours or bool(OUR_SENTENCE.match(line))
            is_edge = ours and bool(DASHES.fullmatch(line))
            if not block and not is_edge:
                shown += line + b"\n"
                continue
            ends = block and is_edge
            block += line + b"\n"
            if ends:
                shown += b"" if THEIR_NEWS.search(block) else block
                block = b""
        if not data:
            shown, pending = shown + block + pending, b""
        elif not block and pending and not pending.startswith(b"--"):  # such as a line that shows progress
            ours = ours or bool(OUR_SENTENCE.match(pending))
            shown, pending = shown + pending, b""
        try:
            while shown:
                shown = shown[os.write(2, shown) :]
        except OSError:
            pass
        if not data:
            return


def run_lesson(lesson: Lesson, words: list[str]) -> int:
    return run(lesson.number, lesson.program, words)


def run_perf(words: list[str]) -> int:
    lesson = lesson_of(words[0] if words else "", "perf", last=3)
    return run(lesson.number, f"{lesson.program}_perf", words[1:])


def experiments_of(lesson: Lesson) -> dict[str, str]:
    """What each experiment shows to be wrong, by name, as the program that runs them lists them."""
    listed = (ROOT / lesson.folder / "break_it/experiments.cpp").read_text()
    return dict(re.findall(r'\{"([a-z0-9-]+)",\s*"([^"]*)"', listed))


def run_break(words: list[str]) -> int:
    lesson = lesson_of(words[0] if words else "", "break")
    known, words = experiments_of(lesson), words[1:]
    if not words or words[0] == "list":
        at_most(1, "break", words)
        for name, belief in known.items():
            say(f"{name:<18} {belief}")
        return 0
    name, words = words[0], words[1:]
    if name not in known:
        near = did_you_mean(name, known) or ";"
        there = f"break {lesson.number}"
        raise Failed(f"break: lesson {lesson.number} has no experiment '{name}'{near} ./learn {there} lists them")
    status = run(lesson.number, f"broken/{lesson.program}", words, name)
    if status == HUNG:
        say(f'{name} hangs on purpose: the lines that begin with "hang: " say who waits for whom.')
    return status


MORE = {
    "tensor_parallel": "each layer's weights are divided among the ranks",
    "pipeline_parallel": "each rank has some of the layers",
    "sending_less": "bf16, PowerSGD, local SGD and DiLoCo",
    "gpt": "the finale: a GPT, which learns from a novel, and writes",
}


def run_more(words: list[str]) -> int:
    if not words:
        for name, what in MORE.items():
            say(f"{name:18} {what}")
        return 0
    if words[0] not in MORE:
        raise Failed(f"more: '{words[0]}' is not one of: {' '.join(MORE)}{did_you_mean(words[0], MORE)}")
    return run(5, {"gpt": "gpt_training"}.get(words[0], words[0]), words[1:])
