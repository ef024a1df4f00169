"""What a C++ file says, without its comments and strings."""
from __future__ import annotations

import re

_PIECE = re.compile(r"""(//(?:[^\\\n]|\\.|\\\n)*|/\*.*?(?:\*/|\Z))|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""", re.S)


def code_of(text: str) -> str:
    """Comments become a space, and strings lose what is in them. Lines keep their numbers."""
    def replaced(piece: re.Match[str]) -> str:
        return " " + "\n" * piece[1].count("\n") if piece[1] else piece[2][0] * 2

    return _PIECE.sub(replaced, text)


def is_started(text: str) -> bool:
    """Whether the stub's own line is gone from the code."""
    return not re.search(r"\bnot_started\s*\(\s*\)\s*;", code_of(text))
