"""What a reader has done, and which hints were shown: a text file to which each event adds a line.

    done 03/ring_all_gather            undone 03/ring_all_gather            hint 03/ring_all_gather 2

The last line about a thing counts. A line is written by one call, so ./learn twice at a time loses
none, and a kill leaves no half of one.
"""

from __future__ import annotations

import os
import re

from console import Failed
from machine import require_free_disk
from place import STATE

FILE = STATE / "progress"


class Progress:
    def __init__(self) -> None:
        self.done: set[str] = set()
        self.hints: dict[str, int] = {}
        try:
            lines = FILE.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            lines = []
        except OSError as error:
            raise Failed(f"{FILE} cannot be read: {error.strerror}") from None
        for line in lines:
            self._read(line.split())

    def _read(self, words: list[str]) -> None:
        if words[:1] == ["done"] and len(words) == 2:
            self.done.add(words[1])
        elif words[:1] == ["undone"] and len(words) == 2:
            self.done.discard(words[1])
        elif words[:1] == ["hint"] and len(words) == 3 and re.fullmatch("[0-9]{1,3}", words[2]):
            self.hints[words[1]] = int(words[2])

    def add(self, event: str, exercise: str, *more: int) -> None:
        """Writes what is new."""
        words = [event, exercise, *map(str, more)]
        before = (exercise in self.done, self.hints.get(exercise))
        self._read(words)
        if before == (exercise in self.done, self.hints.get(exercise)):
            return
        try:
            file = os.open(FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            try:
                append_line(file, " ".join(words))
            finally:
                os.close(file)
        except OSError:
            require_free_disk(STATE)
            raise Failed(f"{FILE} cannot be written") from None


def append_line(file: int, line: str) -> None:
    """In one call. The last line may lack its end, because an editor left it out, or a full disk cut it off."""
    size = os.fstat(file).st_size
    begin = "\n" if size and os.pread(file, 1, size - 1) != b"\n" else ""
    data = f"{begin}{line}\n".encode()
    if os.write(file, data) != len(data):
        raise OSError("the disk is full")
