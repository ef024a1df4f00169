"""A hang, as the watch reports it, in the words of an exercise: with the ranks of the group that is judged,
which are not the world's, and with a hint for what the ranks are seen to do.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Place(NamedTuple):
    """Where a rank of the world is judged."""

    group: int
    rank: int  # in the group


# What exercise.cpp calls the collectives after which a check is over.
END = r"the end of the check"

# For each kind of hang that looks the same in every exercise; a check may have a better one.
HINTS = {
    "loop": "a rank that calls no MPI function for so long computes without end, or waits for something that is no "
    "message: look for a loop whose condition never becomes false.",
    "tag": "a receive takes only a message with its own tag: both ranks must use the same number for it, and a rank's "
    "own number is another one on each.",
    "communicator": "a receive takes only a message of its own communicator: use comm.get() for both.",
}


def places(text: str) -> list[Place]:
    """From the file that the program writes: "GROUP RANK" for each rank of the world, in their order."""
    return [Place(int(group), int(rank)) for group, rank in re.findall(r"^(\d+) (\d+)\n", text, re.M)]


def _ranks(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


_LIST = r"ranks? (\d+(?:, \d+)*)"


def _translated(line: str, at: list[Place]) -> str:
    """With the ranks of the group, ascending, and a cycle that begins with the lowest one."""

    def rank(number: str | int) -> int:
        return at[int(number)].rank if int(number) < len(at) else int(number)

    def all_of(found: re.Match[str]) -> str:
        numbers = sorted(map(rank, _ranks(found[1])))
        return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"

    line = re.sub(_LIST, all_of, line)
    line = re.sub(r"\b(to|from) (\d+)\b", lambda found: f"{found[1]} {rank(found[2])}", line)
    cycle = re.fullmatch(r"(.*): cycle ([\d >-]+)", line)
    if not cycle:
        return line
    numbers = [rank(number) for number in _ranks(cycle[2])][:-1]
    first = numbers.index(min(numbers))
    numbers = numbers[first:] + numbers[:first]
    waits = cycle[1].split("; ")
    return f"{'; '.join(waits[first:] + waits[:first])}: cycle {' -> '.join(map(str, [*numbers, numbers[0]]))}"


def judged(log: str, at: list[Place]) -> list[str]:
    """The lines of the report ("hang: ...") about the group that hangs."""
    lines = [re.sub(r"^\[[^]]*\]<std(?:out|err)>: ?", "", line) for line in log.splitlines()]
    lines = [line.removeprefix("hang: ") for line in lines if line.startswith("hang: ")]
    lines = [line for line in lines if not re.match("nothing has moved|before that|the trace is in", line)]
    returned = {
        rank for line in lines for found in re.findall(_LIST + rf" (?:is|are) in {END}", line) for rank in _ranks(found)
    }
    busy = [rank for rank in range(len(at)) if rank not in returned]
    group = {rank for rank in range(len(at)) if busy and at[rank].group == at[busy[0]].group}
    report = []
    for line in lines:
        about = {rank for found in re.findall(_LIST, line) for rank in _ranks(found)}
        inside = {rank for found in re.findall(_LIST + " (?:is|are) in", line) for rank in _ranks(found)}
        is_ours = END in line or bool(inside or about) and (inside or about) <= returned
        if not is_ours and not (group and about and not about & group):
            report.append(line)
    back = sorted(returned & group)
    if back and busy:
        report.append(
            _said(back, "has", "have")
            + " already returned, "
            + _said(sorted(set(busy) & group), "has", "have")
            + " not"
        )
    # A rank that is busy in its own code is named first, because the others wait for it.
    report.sort(key=lambda line: " no MPI call" not in line)
    return [f"hang: {_translated(line, at)}" for line in report]


def _said(ranks: list[int], one: str, many: str) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))} {many if len(ranks) > 1 else one}"


def kind_of(report: list[str]) -> str:
    """What is seen in a report: a key of HINTS, or "sends", or "hang" for anything else."""
    text = "\n".join(report)
    if "has made no MPI call" in text:
        return "loop"
    if "on a different communicator" in text:
        return "communicator"
    if re.search(r"waits for .*tag.*; rank \d+ has sent .*tag", text):
        return "tag"
    if re.search(r"\bin MPI_(?!Send|Recv|S?send|Isend|Irecv|Wait|Test|Probe|Ssend|Sendrecv|Finalize|Init)\w+ #", text):
        return "collectives"
    cycle = re.search(r"(.*): cycle ", text)
    if cycle:
        calls = re.findall(r"rank \d+ in (MPI_\w+)(?: for (MPI_\w+) (?:to|from) \d+ \([^)]*\)(?= *(?:;|$)))?", cycle[1])
        what = {of or call for call, of in calls}
        if what <= {"MPI_Send", "MPI_Ssend", "MPI_Isend", "MPI_Issend"}:
            return "sends"
        if what <= {"MPI_Recv", "MPI_Irecv", "MPI_Probe", "MPI_Mprobe"}:
            return "receives"
    return "hang"
