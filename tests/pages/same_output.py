"""Compares what a program prints with what a page shows (CONTRIBUTING.md, "READMEs")."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Text that differs between machines and builds: reasons, limits of the transport, measured memory.
HOST = [
    (r" at 0x[0-9a-f]+", " at an address"),
    (r" on cpu \([^)]*\)", " on cpu"),
    (r"no nccl: .*", "no nccl"),
    (r"^(mpirun .* )/\S*(build/bin/)", r"\1\2"),  # ./learn was a link
    (r"^(gradients by \w+ \(ring\)): .*", r"\1"),
    (r"^communication: .*", "communication"),
    (r"(returns early up to|hangs above) \d+ bytes", r"\1"),
    (r"^ *\d+ bytes from rank (\d+) to rank (\d+) on the same host.*", r"rank \1 to \2"),
    (r"^memory: [\d.]+ MiB per rank", "memory per rank"),
    (r" steps, parameters [0-9a-f]{16}$", " steps"),  # oneDNN rounds differently on each CPU
    (r"program, MPI and data .*", "program, MPI and data"),
]
WORD = re.compile(r"(?:(?<![^ (\[:,])[-+](?=\d))?[\w.]*\w|\S")  # numbers with their signs
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?")
SIZES = ("B", "KiB", "MiB", "GiB", "bytes")


def words_of(line: str) -> list[str]:
    for what, instead in HOST:
        line = re.sub(what, instead, line)
    return WORD.findall(line)


def same_word(shown: str, printed: str, following: str, measured: bool, loose: str | None) -> bool:
    if shown == printed:
        return True
    if not NUMBER.fullmatch(shown) or not NUMBER.fullmatch(printed):
        return False
    if loose == "numbers" or (measured and following not in SIZES):  # a size names a row
        return True
    within = float((loose or "").partition("within ")[2] or 0)
    return "." in shown + printed and abs(float(shown) - float(printed)) <= within * max(1, abs(float(shown)))


def same_line(shown: str, printed: str, measured: bool, loose: str | None) -> bool:
    ours, theirs = words_of(shown), words_of(printed)
    return len(ours) == len(theirs) and all(
        same_word(*pair, measured, loose) for pair in zip(ours, theirs, [*ours[1:], ""])
    )


def measured_lines(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """(line, whether its numbers are measured): it names a unit of time, or is a table's row below
    a line that does."""
    measured = False
    for line in lines:
        time = re.search(r"(?<!\w)(ns|us|ms|microseconds|per second)(?!\w)", line)
        measured = bool(time and not line.startswith("hang: ")) or (measured and line[:1] == " ")
        yield line, measured


def without_mpirun(output: str) -> list[str]:
    """The lines of an output, without mpirun's messages about how the run ended."""
    output = re.sub(r"^-{20,}\n(?:.*\n)*?-{20,}\n|^\[[\w.-]+:\d+\] .*\n", "", output, flags=re.M)
    return output.rstrip().splitlines()


def difference(shown: list[str], printed: list[str], loose: str | None = None) -> str | None:
    """The first difference between lines, or None. "..." stands for any lines; "hang: " lines may
    come in any order. `loose` is the text of the mark "output"."""
    # On a busy machine any rank may be the slow one.
    printed = [line for line in printed if "the others waited for rank " not in line]
    hangs = [[line for line in side if line.startswith("hang: ")] for side in (shown, printed)]
    if sorted(hangs[0]) != sorted(hangs[1]):
        return "shown:   {}\nprinted: {}".format(*("\n         ".join(side) for side in hangs))
    expected = [each for each in measured_lines(shown) if not each[0].startswith("hang: ")]
    actual = [line for line in printed if not line.startswith("hang: ")]
    if loose == "any order":
        expected.sort()
        actual.sort()
    reach = {0}  # how many of the actual lines the expected ones so far can account for
    for line, measured in expected:
        if line == "...":
            after = set(range(min(reach), len(actual) + 1))
        else:
            after = {i + 1 for i in reach if i < len(actual) and same_line(line, actual[i], measured, loose)}
        if not after:
            return f"shown:   {line}\nprinted: {[*actual, 'nothing more'][max(reach)]}"
        reach = after
    return None if len(actual) in reach else f"not shown: {actual[max(reach)]}"
