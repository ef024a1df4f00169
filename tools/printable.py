"""Text from elsewhere (a file's name, the environment, what a reader's program says), made fit for a terminal."""

from __future__ import annotations

import re

# Our own colours may pass: nobody else's text is made worse by them.
_COLOUR = re.compile("(\x1b\\[(?:0|3[123])m)")


def printable(text: object, keep: str = "") -> str:
    r"""What could control a terminal becomes an escape, such as \x1b, and so does a byte that is not UTF-8 and was
    read with "surrogateescape". `keep`: characters that stay, such as newlines."""
    return "".join(c if c.isprintable() or c in keep else _escaped(c) for c in str(text))


def printable_lines(text: str) -> str:
    parts = _COLOUR.split(text)
    parts[::2] = [printable(part, keep="\n\t") for part in parts[::2]]
    return "".join(parts)


def _escaped(c: str) -> str:
    byte = ord(c) - 0xDC00
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else ascii(c)[1:-1]
