"""What ./learn doctor finds."""

from __future__ import annotations

from typing import NamedTuple

from machine import first_line
from tools_used import output_of


class Found(NamedTuple):
    verdict: str  # "ok", "note" or "problem"
    text: str
    fix: str = ""


def ok(text: str) -> Found:
    return Found("ok", text)


def note(text: str, fix: str = "") -> Found:
    return Found("note", text, fix)


def problem(text: str, fix: str) -> Found:
    return Found("problem", text, fix)


class NotChecked(Exception):
    """A tool that an examination needs is missing or fails."""


def needed(*words: str) -> str:
    """The output of a tool that must succeed."""
    status, said = output_of([*words])
    if status != 0:
        raise NotChecked(first_line(said))
    return said
