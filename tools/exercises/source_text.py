"""What a C++ file says, without its comments and strings."""

from __future__ import annotations

import re

_PIECE = re.compile(r"""(//(?:[^\\\n]|\\.|\\\n)*|/\*.*?(?:\*/|\Z))|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""", re.S)


def code_of(text: str) -> str:
    """Comments become a space, and strings lose what is in them. Lines keep their numbers."""

    def replaced(piece: re.Match[str]) -> str:
        return " " + "\n" * piece[1].count("\n") if piece[1] else piece[2][0] * 2

    return _PIECE.sub(replaced, text)


def has_static_variable(code: str) -> bool:
    """Whether something outlives a call, other than a constant or a function."""
    return bool(
        re.search(
            r"\bstatic\s+(?!const)(?!inline)[\w:<>,*&\s]+?[\w>&*]\s+\w+\s*(?:[;={]|\[|\([^()]+(?:\([^()]*\)[^()]*)*\)\s*;)",
            code,
        )
    )


def copies_elements(code: str) -> bool:
    """Whether a memcpy is given a number that is not said to be of bytes."""
    return any(not re.search("sizeof|bytes", call) for call in re.findall(r"\bmemcpy\s*\([^;]*;", code))


def mirrors_negatives(code: str) -> bool:
    """Whether abs is given ranks, steps or chunks."""
    return bool(re.search(r"\babs\s*\([^;]*\b(?:rank|step|chunk|index)", code))


def is_started(text: str) -> bool:
    """Whether the stub's own line is gone from the code."""
    return not re.search(r"\bnot_started\s*\(\s*\)\s*;", code_of(text))
