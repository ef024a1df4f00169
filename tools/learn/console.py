"""What ./learn prints, and how it ends."""

from __future__ import annotations

import difflib
import os
import shutil
import signal
from collections.abc import Iterable
from typing import NoReturn

from printable import printable_lines


class Failed(Exception):
    """Ends ./learn with one sentence for the reader. `before` is printed first, as it is."""

    def __init__(self, text: str, status: int = 2, before: str = "") -> None:
        super().__init__(text)
        self.text, self.status, self.before = text, status, before


class Ended(Exception):
    """Ends ./learn with this status. What there is to say has been said."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def did_you_mean(typed: str, known: Iterable[str], prefix: str = "") -> str:
    """ "; did you mean X?", if one of the known words is near; else ""."""
    near = difflib.get_close_matches(typed.lower(), [*known], 1, 0.6)
    return f"; did you mean {prefix}{near[0]}?" if near else ""


def write(descriptor: int, text: str) -> None:
    data = printable_lines(text).encode()
    while data:
        data = data[os.write(descriptor, data) :]


def err(text: str) -> None:
    """A line on standard error, as well as can be."""
    try:
        write(2, text + "\n")
    except OSError:
        pass


def print_failure(error: Failed) -> None:
    if error.before:
        err(error.before.rstrip("\n"))
    err(f"error: {error.text}")


def no_output() -> NoReturn:
    raise Failed("standard output cannot be written; is its disk full?")


class Output:
    """Where our own lines go: to standard output or standard error, or into a list that is kept."""

    def __init__(self) -> None:
        self.descriptor = 1
        self.kept: list[str] | None = None

    def __call__(self, text: str = "", end: str = "\n") -> None:
        if self.kept is not None:
            self.kept.append(text)
            return
        try:
            write(self.descriptor, text + end)
        except OSError:
            if self.descriptor == 1:
                no_output()


say = Output()


def is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


_colours = is_terminal(1) and not os.environ.get("NO_COLOR")
GREEN, RED, YELLOW, PLAIN = ("\033[32m", "\033[31m", "\033[33m", "\033[0m") if _colours else ("",) * 4


def width() -> int:
    """The terminal's columns; 0 if standard output is none."""
    return shutil.get_terminal_size((80, 24)).columns if is_terminal(1) else 0


OUTPUT_IS_CLOSED = False


def begin() -> None:
    """A pipe that is closed ends us without a word, and a closed output must not become another file."""
    global OUTPUT_IS_CLOSED
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for descriptor, instead in ((0, "/dev/null"), (1, "/dev/full"), (2, "/dev/null")):
        try:
            os.fstat(descriptor)
        except OSError:
            OUTPUT_IS_CLOSED = OUTPUT_IS_CLOSED or descriptor == 1
            os.open(instead, os.O_RDWR)  # the lowest that is free
