"""The messages of a small run (drawing.hpp), as the table of the lesson's page: a reader's beside ours, with the
first difference between > and <."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

_MOST_ROWS = 6
_DEFAULT_WIDTH = 100
INDENT = "    "  # of the rows

Run = dict[str, Any]  # what drawing.cpp writes
Cells = dict[tuple[int, int], str]  # (row, rank): what the rank sends


def run_in(path: pathlib.Path) -> Run | None:
    """None if the program has not come so far."""
    try:
        return json.loads(path.read_text(errors="replace"))
    except (OSError, ValueError):
        return None


def is_different(run: Run | None) -> bool:
    return run is not None and not run["same"]


def has_right_messages(run: Run) -> bool:
    """Whether all messages are right, and have arrived, but not what a rank has in the end."""
    return not unreceived(run) and all(
        _sent(run, yours) == _sent(run, ours) for yours, ours in zip(run["yours"], run["ours"])
    )


def _sent(run: Run, done: dict[str, Any]) -> list[dict[str, Any]]:
    """A rank's messages. Where an average may be divided at any time, "ab" is like "ab/2"."""
    if not run["divides_anywhere"]:
        return list(done["sends"])
    return [{**message, "text": undivided(message["text"])} for message in done["sends"]]


def ends_as_it_began(run: Run) -> bool:
    """Whether each rank that ends with something wrong has what it had before the call."""
    wrong = [yours for yours, ours in zip(run["yours"], run["ours"]) if yours["has"] != ours["has"]]
    return bool(wrong) and all(yours["kept"] for yours in wrong)


def undivided(text: str) -> str:
    return re.sub(r"/\d+", "", text)


def has_sums(run: Run) -> bool:
    """Whether ranks add in our solution."""
    return any(re.search(r"\b[a-h]{2,}\b", done["has"]) for done in run["ours"])


def divided_on_some(run: Run) -> str:
    """A hint, if some ranks or chunks end with the average, and all others with the sum."""
    for rank, done in enumerate(run["yours"]):
        has_sum = re.search(r": [a-h]{2,}(?![\w/])", done["has"])
        if has_sum and re.search(r": [a-h]{2,}/\d", done["has"]) and has_sums(run):
            return (
                f"on rank {rank}, some chunks end as averages and others as sums: every rank must multiply the chunk "
                "that it has completed, before it passes it on."
            )
    divided = [yours["has"] == ours["has"] for yours, ours in zip(run["yours"], run["ours"])]
    sums = all(undivided(yours["has"]) == undivided(ours["has"]) for yours, ours in zip(run["yours"], run["ours"]))
    if not sums or all(divided) or not any(divided):
        return ""
    return (
        f"rank {divided.index(True)} ends with the average, but rank {divided.index(False)} with the sum: all ranks "
        "must do the same."
    )


def messages_missing(run: Run) -> str:
    """A hint, if the first messages of each rank are right, and the last ones are missing."""
    fewer = []
    for yours, ours in zip(run["yours"], run["ours"]):
        if _sent(run, yours) != _sent(run, ours)[: len(yours["sends"])]:
            return ""
        fewer.append(len(ours["sends"]) - len(yours["sends"]))
    if not any(fewer) or unreceived(run) or not any(done["sends"] for done in run["yours"]):
        return ""
    if len(set(fewer)) == 1:
        steps = "the last step is" if fewer[0] == 1 else f"the last {fewer[0]} steps are"
        return f"all messages are right so far, but {steps} missing: how many are due, and where does the loop end?"
    rank = next(rank for rank, count in enumerate(fewer) if count)
    if not run["yours"][rank]["sends"]:
        return f"all messages are right so far, but rank {rank} sends none of those that are due from it."
    return (
        f"all messages are right so far, but some are missing, as the last one of rank {rank}: where does its loop "
        "begin, and where does it end? It must be right on any number of ranks."
    )


def adds_what_arrives(run: Run) -> str:
    """A hint, if a rank passes on sums where nothing is to be added."""

    def sums(done: dict[str, Any]) -> bool:
        return any(re.search(r"\b[a-h]{2,}\b", message["text"]) for message in done["sends"])

    if any(sums(done) or re.search(r"\b[a-h]{2,}\b", done["has"]) for done in run["ours"]):
        return ""
    rank = next((rank for rank, done in enumerate(run["yours"]) if sums(done)), None)
    return (
        f"rank {rank} passes on a sum of what has arrived and of what was there: here, what arrives must replace it "
        "(=, not +=)."
        if rank is not None
        else ""
    )


def ends_unlike(run: Run) -> bool:
    """Whether a rank ends with something else than ours: not only zeros, and not only a sum in place of an average."""
    wrong = [yours["has"] for yours, ours in zip(run["yours"], run["ours"]) if yours["has"] != ours["has"]]
    right = {undivided(ours["has"]) for ours in run["ours"]}
    return any(undivided(text) not in right and text != "zeros" and "unknown" not in text for text in wrong)


def passes_on_its_own(run: Run) -> int | None:
    """A rank that sends what it had before the call in place of others' numbers, to the right ranks."""

    def route(whose: list[dict[str, Any]]) -> list[list[int]]:
        return [[message["to"] for message in done["sends"]] for done in whose]

    def letters(whose: list[dict[str, Any]]) -> set[str]:
        texts = " ".join(message["text"] for done in whose for message in done["sends"])
        return set("".join(re.findall(r"\b([a-h]+)\d*\b", texts)))

    right = letters(run["ours"])
    if route(run["yours"]) != route(run["ours"]):
        return None
    own = [chr(ord("a") + rank) for rank in range(run["ranks"])]
    return next((rank for rank, a in enumerate(own) if a not in right and a in letters([run["yours"][rank]])), None)


def unreceived(run: Run) -> list[tuple[int, int]]:
    """Sender and receiver of each message of the reader's that was sent and never received."""
    return [(sender, rank) for rank, done in enumerate(run["yours"]) for sender in done["left"]]


def is_due(run: Run, sender: int, rank: int) -> bool:
    """Whether the first message from this sender to this rank is as ours, and in the same round."""
    yours, ours = (
        next((message for message in run[whose][sender]["sends"] if message["to"] == rank), None)
        for whose in ("yours", "ours")
    )
    return yours is not None and yours == ours


def text_of_all(run: Run) -> str | None:
    """What all of our messages contain, so that it need not be repeated: what the root has."""
    texts = {message["text"] for done in run["ours"] for message in done["sends"]}
    return texts.pop() if run["rounds"] and run["lengths"][0] and len(texts) == 1 else None


def shown_texts(run: Run) -> set[str]:
    return {message["text"] for whose in ("yours", "ours") for done in run[whose] for message in done["sends"]} - {
        text_of_all(run)
    }


def heading(run: Run) -> str:
    ranks, lengths = run["ranks"], run["lengths"]
    where = f"on {ranks} ranks"
    if run["chunks"]:
        longer = lengths[0] - ranks
        where += ", with one number per chunk" + (", but two in chunk 0" if longer else "")
    elif len(set(lengths)) > 1:
        where += f", which send {', '.join(map(str, lengths))} numbers"
    elif lengths[0] > 0:
        where += f", with {lengths[0]} number{'s' if lengths[0] > 1 else ''} each"
    if run["root"] and len(set(lengths)) == 1:
        where += f", root {run['root']}"
    letters = any(re.search(r"\b[a-h]+\d*\b", text) for text in shown_texts(run))
    return where + (" (a is from rank 0)" if letters else "")


def table(run: Run, width: int) -> list[str]:
    """The lines of the table, with a heading, each indented by at least 2."""
    rows = _rounds(run) if run["rounds"] else _steps(run, (width or _DEFAULT_WIDTH) - 6)
    mixed = any("mixed" in text for text in shown_texts(run))
    return [
        f"  your messages and ours {heading(run)}, with the first difference between > and <:",
        *(["  (mixed: numbers from different places)"] if mixed else []),
        *(f"{INDENT}{row}".rstrip() for row in rows),
    ]


def _fates(run: Run, whose: str, rank: int) -> list[str]:
    """What is to be said of each message that a rank sends. Messages do not overtake each other, so the last ones to
    a rank are those that it has not received."""
    fates, left = [], [done["left"].count(rank) for done in run[whose]]
    for message in reversed(run[whose][rank]["sends"]):
        is_left = message["to"] >= 0 and left[message["to"]] > 0
        if is_left:
            left[message["to"]] -= 1
        fates.append(" (not received)" if is_left else "")
    return fates[::-1]


def _cells(run: Run, whose: str) -> Cells:
    cells = {}
    for rank, done in enumerate(run[whose]):
        right = (rank + 1) % run["ranks"]
        for message, fate in zip(done["sends"], _fates(run, whose, rank)):
            to = message["to"]
            aside = "" if to == right else " -> nobody here" if to < 0 else f" -> rank {to}"
            cells[message["row"], rank] = message["text"] + aside + fate
    return cells


def _alike(run: Run, mine: list[str], right: list[str]) -> bool:
    """Whether two rows of messages are. Where an average may be divided at any time, "ab" is like "ab/2"."""

    def plain(cells: list[str]) -> list[str]:
        return [re.sub(r"/\d+", "", cell) for cell in cells] if run["divides_anywhere"] else cells

    return plain(mine) == plain(right)


def _columns(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)) for row in rows]


def _steps(run: Run, width: int) -> list[str]:
    """A column for each rank and, where they differ, a line for the reader's messages and one for ours."""
    ranks = range(run["ranks"])
    yours, ours = _cells(run, "yours"), _cells(run, "ours")
    steps = max((row for row, _ in {**yours, **ours}), default=0)
    lines, marked = [], False
    for step in range(1, steps + 1):
        mine, right = ([cells.get((step, rank), "-") for rank in ranks] for cells in (yours, ours))
        if _alike(run, mine, right):
            lines.append([str(step), "", *(f" {cell}" for cell in mine)])
            continue
        first = next(rank for rank in ranks if not _alike(run, [mine[rank]], [right[rank]]))
        lines.append(
            [
                str(step),
                "yours",
                *(f">{cell}<" if not marked and rank == first else f" {cell}" for rank, cell in enumerate(mine)),
            ]
        )
        lines.append(["", "ours", *(f" {cell}" for cell in right)])
        marked = True
        if step < steps and steps > _MOST_ROWS:
            lines.append(["...", "", *("" for _ in ranks)])
            break
    if not marked:
        mine, right = ([done["has"] for done in run[whose]] for whose in ("yours", "ours"))
        unlike = next((rank for rank in ranks if mine[rank] != right[rank]), None)
        if unlike is not None:
            lines.append(
                ["end", "yours", *(f">{cell}<" if rank == unlike else f" {cell}" for rank, cell in enumerate(mine))]
            )
            lines.append(["", "ours", *(f" {cell}" for cell in right)])
    # As many ranks as there is room for, beginning with the one that is marked.
    table = [["step", "", *(f" rank {rank} sends" for rank in ranks)], *lines]
    chosen, left_out = list(ranks), []
    start = next((rank for row in lines for rank in ranks if row[rank + 2].startswith(">")), 0)
    while len(chosen) > 1:
        text = _columns([[*row[:2], *(row[rank + 2] for rank in chosen)] for row in table])
        if max(map(len, text)) <= width:
            break
        left_out.append(chosen[-1] if chosen[-1] != start else chosen[0])
        chosen.remove(left_out[-1])
    text = _columns([[*row[:2], *(row[rank + 2] for rank in chosen)] for row in table])
    if left_out:
        text.append(
            f"(no room for {len(left_out)} other rank{'s' if len(left_out) > 1 else ''}: use a wider terminal, "
            "or --draw)"
        )
    return text


def _rounds(run: Run) -> list[str]:
    """A line for each round, with all messages of the round and, unless it is the root's, their content."""
    of_root = text_of_all(run)

    def arrows(whose: str) -> dict[int, list[str]]:
        rounds: dict[int, list[str]] = {}
        for rank, done in enumerate(run[whose]):
            for message, fate in zip(done["sends"], _fates(run, whose, rank)):
                to = message["to"] if message["to"] >= 0 else "nobody here"
                what = "" if message["text"] == of_root else f": {message['text']}"
                rounds.setdefault(message["row"], []).append(f"{rank} -> {to}{what}{fate}")
        return rounds

    yours, ours = arrows("yours"), arrows("ours")
    lines, marked = [["round", "yours", "ours"]], False
    for number in sorted({*yours, *ours}):
        mine, right = yours.get(number, []), ours.get(number, [])
        if mine != right and not marked:
            marked = True
            wrong = next((arrow for arrow in mine if arrow not in right), None)
            mine = [f">{arrow}<" if arrow == wrong else arrow for arrow in mine]
            if wrong is None:  # one is missing
                missing = next((arrow for arrow in right if arrow not in mine), None)
                right = [f">{arrow}<" if arrow == missing else arrow for arrow in right]
        lines.append([str(number), *("   ".join(arrows) or "-" for arrows in (mine, right))])
    if not marked:
        for rank, (done, due) in enumerate(zip(run["yours"], run["ours"])):
            if done["has"] != due["has"]:
                lines.append([f"rank {rank} has", f">{done['has']}<", due["has"]])
                break
    return _columns(lines)
