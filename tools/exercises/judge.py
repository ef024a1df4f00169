#!/usr/bin/env python3
"""judge.py PROGRAM [FLAGS...]: judges a solution on several numbers of ranks, and says what is wrong.

Four ranks come first, because they reveal most mistakes and match the pictures. In the last run, groups
of the ranks are judged beside each other, with synchronous sends (--strict), so that MPI buffers nothing.
A solution is done only if the program has written so in its verdict, after all checks: the status of a
job shows only how it ended.

FLAGS are the program's: --trace FILE keeps the messages of the last run, which is the wrong one.

Prints "done" and what the solution sends on 4 ranks, "not started", or "wrong ..." with a hint, and exits
with 0, 3 or 1; "not judged ..." with 4 if the machine was too busy to tell; and exits with 2 if the program
never reached the checks.

    EXERCISE_LOG      a file for what the ranks of the wrong run printed
    EXERCISE_SOURCE   the solution's file, if a hint may come from its text
    EXERCISE_DRAWING  a file for a page that shows the messages of a small run
    EXERCISE_WARNINGS a file with what the compiler said of it
    EXERCISE_RANKS    other runs, for example "4 3"
    EXERCISE_TIMEOUT  how long nothing may move, in seconds (2, and more on a busy machine)
    EXERCISE_WIDTH    of the terminal, at which the answer is wrapped, after EXERCISE_INDENT columns
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import hang_hints  # noqa: E402
from job import MOST_PRINTED, Job, Run, adopt  # noqa: E402
from message_page import write_page  # noqa: E402
from message_table import INDENT as TABLE  # noqa: E402
from message_table import Run as SmallRun
from message_table import (
    adds_what_arrives,
    divided_on_some,
    ends_as_it_began,
    ends_unlike,
    has_right_messages,
    has_sums,
    is_different,
    is_due,
    messages_missing,
    passes_on_its_own,
    run_in,
    table,
    unreceived,
)
from printable import printable  # noqa: E402
from source_text import (  # noqa: E402
    THREAD,
    code_of,
    copies_span,
    likely_mistake,
    remarks,
    starts_thread,
    static_variable,
)

RUNS = ["4", "1", "2", "3", "6", "7", "5 --strict --groups 2"]  # a pure function needs only the first
LAST_LINES = 5
DRAWABLE = "can be drawn"  # the program writes this if it has --draw

PRINT_LESS = "print a few lines per rank, such as the first numbers."
PRINTED = f"(it printed {{:.0f}} MB, which takes time: {PRINT_LESS})"
STATIC = (
    "it has a static or global variable, which all calls share: each finds what another one has left, or has just "
    "changed."
)
ENDLESS = "it computes without end: look for a loop whose condition never becomes false."
ENDS = "a solution returns to its caller; it neither ends the program nor starts another one."
UNCHANGED = (
    "the messages are right, but what was there before is still there. Write what arrives, or its sum, into the span "
    "itself: a vector that was made from it is a copy, in other memory."
)
ELSEWHERE = (
    "the messages are right, so look at what is done with the numbers that arrive: where are they written, or to which "
    "are they added? An index that counts from the start of a chunk is not one that counts from the start of `data`."
)
OTHER_END = (
    "the messages are right, but not what is made of them: does what arrives overwrite what it must be added to, is it "
    "added where it must be kept, or does it go to another chunk's place? Chunk numbers go around: -1 is the last."
)
OTHER_PLACE = (
    "the messages are right, but what arrives goes to a wrong place. Which chunk is it, by the sender's count? A ring "
    "to the left brings chunk r + 1 after chunk r, and one to the right chunk r - 1. Chunk numbers go around: -1 is "
    "the last."
)
WRITTEN = (
    "all messages are right, and have arrived, but a rank ends with something else: what writes to its memory before "
    "the call returns, or does what arrives go elsewhere?"
)
DIVIDED_BY_0 = "a whole number was divided by 0 (or its remainder taken): what is 0 there, or stands in its place?"
BOUNDS = (
    "an index is not below the size. [] makes no vector longer, reserve makes no elements, what was moved from is "
    "empty, an offset that goes on where it ended leaves the vector, and (0 - 1) % 4 is -1."
)
HEAP = (
    "something was written beyond the end of a vector or an array; or through a span, a pointer or a reference to a "
    "vector that is gone (its block has ended) or has moved (push_back, resize); or two objects believe that they own "
    "the same memory (the bytes of a vector are addresses, not its numbers). It may have happened in an earlier call."
)
PART_OF_SPAN = (
    "begin + count goes beyond the end. Chunks may differ in length by one: begin and count must be the same chunk's."
)
DUE = "that message is right, but rank {} does something else in this round, instead of receiving it."
TO_ITSELF = "a rank has what it would send to itself: leave this message out."
EMPTY_COUNT = "MPI was given a count above 0 for an empty span: the count must be the span's own size()."
EMPTY = (
    "a span of length 0 has no elements: there is no [0], no front() and no back(). A call that is given length 0 has "
    "nothing to look at."
)
# Where message_checks.hpp lets empty spans begin; reading there is a crash.
NO_MEMORY = re.compile(r"Failing at address: 0x3a5000[01][0-9a-f]{5}\b")
CANNOT_WRITE = "the disk of the temporary files is full, or the solution lets files have only few bytes."
OVERFLOW = (
    "no room was left on its stack, not even for a message: does it call itself without end, or with an array of "
    "megabytes that is not a std::vector?"
)
CRASH = (
    "this is nearly always an index out of bounds, memory that is gone while MPI still uses it (a buffer that "
    "ends before its wait), or a missing return; think of ranks with nothing to do, and of sizes 0 and 1."
)


def printed(log: str, rank_of: dict[int, int]) -> list[str]:
    """What the ranks printed, without what the watch and MPI say about them."""
    lines = []
    log = log.partition("*** Process received signal")[0]  # then MPI prints the stacks of all ranks at once
    for rank, text in re.findall(r"^\[[^],]*,(\d+)\]<std(?:out|err)>: ?(.*)$", log, re.M):
        if text and not re.match(
            r".*: Assertion '|hang: |trace: |WRONG: |\[[^] ]*:\d+\]|terminate called|  what\(\)|-{20}", text
        ):
            lines.append(f"rank {rank_of.get(int(rank), rank)}: {text}")
    return lines


def warnings() -> list[str]:
    """What the compiler has warned of in the solution."""
    path = os.environ.get("EXERCISE_WARNINGS", "")
    text = pathlib.Path(path).read_text(errors="replace") if os.path.exists(path) else ""
    found = re.findall(r"(\d\d_\w+/exercise/\w+\.hpp:\d+):\d+: warning: (.*)", text)
    return [f"(the compiler warns: {place}: {what})" for place, what in found[:2]]


def hint_of_warnings() -> str:
    text = " ".join(warnings())
    if "may fall through" in text:
        return "a case without a break goes on in the next one: see the compiler's warning."
    if "used uninitialized" in text:
        return "a variable is used before it has a value: see the compiler's warning."
    if "will be initialized after" in text:
        return (
            "members get their values in the order of their declaration, whatever the order after the colon: one that "
            "is made of another must be declared after it. See the compiler's warnings."
        )
    return ""


def crash_in(run: Run) -> str:
    found = re.search(r"Signal: [A-Za-z ]+[a-z]|terminate called.*|fatal: .*", run.log)
    return found[0] if found else "Segmentation fault" if is_overflow(run) else ""


def is_overflow(run: Run) -> bool:
    """Whether a rank's stack was full. Then Open MPI's handler cannot say anything either."""
    return run.status == 128 + signal.SIGSEGV and "Signal: " not in run.log


def is_inside_mpi(log: str) -> bool:
    """Whether the stack of a crash, as Open MPI prints it, begins in MPI and not in the program."""
    stack = re.findall(r"\[ *\d+\] (\S+)", log.partition("*** Process received signal")[2])
    first = next(
        (frame for frame in stack if re.search(r"exercise_\d|solutions_\d|libmpi|mca_|libopen-pal", frame)), ""
    )
    return bool(re.search("libmpi|mca_|libopen-pal", first))


def hint_of(verdict: str, kind: str) -> str:
    """The check's own hint for this kind of end, if it has one."""
    found = re.search(rf"^hint if {kind}: (.*)$", verdict, re.M)
    return found[1] if found else ""


def why_it_ended(run: Run) -> tuple[str, str]:
    """What stopped a check that did not finish, and the hint."""
    plain = re.search(r"^hint: (.*)$", run.verdict, re.M)
    hint = plain[1] if plain else ""
    if heap := re.search(r"double free|(?:free|malloc|munmap_chunk|realloc)\(\): [a-z ]+|corrupted [\w ]+", run.log):
        return f"it crashed: {heap[0].strip()}", HEAP
    if "has not returned" in run.ended:
        return run.ended, "one of its loops never ends."
    if run.ended:
        return run.ended, hint
    report = hang_hints.judged(run.log, run.places)
    crash = crash_in(run)
    if found := re.search(r"std::(\w+)<[^\n]*::(operator\[\]|\w+)\([^\n]*Assertion '([^\n]*)' failed", run.log):
        container, function, condition = found.groups()
        name = "[...]" if function == "operator[]" else f"{function}()"
        if own := hint_of(run.verdict, "crash"):
            return f"it uses an element that does not exist: {name} of a std::{container}", own
        return f"it uses an element that does not exist: {name} of a std::{container}", (
            EMPTY
            if "empty()" in condition and container == "span"
            else PART_OF_SPAN
            if container == "span" and function in ("subspan", "first", "last")
            else BOUNDS
        )
    if NO_MEMORY.search(run.log):
        return "it uses an element of an empty span", EMPTY_COUNT if is_inside_mpi(run.log) else EMPTY
    if "Floating point exception" in crash:
        return f"it crashed: {crash}", hint_of(run.verdict, "crash") or DIVIDED_BY_0
    if is_overflow(run):
        return f"it crashed: {crash}", OVERFLOW
    if "verdict cannot be written" in crash or run.status == 128 + signal.SIGXFSZ:
        return crash.removeprefix("fatal: ") or "it may not write a file any more", CANNOT_WRITE
    if "out of memory" in crash or "bad_alloc" in crash:
        return "it ran out of memory", "it allocates without end, or its size is wrong."
    if crash:
        return f"it crashed: {crash}", hint_of(run.verdict, "crash") or CRASH
    if emulated := re.search(r"emulated CUDA: .*", run.log):
        hint = "what a call was given is not a tensor on this GPU, or longer than one: counts are in elements."
        return emulated[0], hint
    if not report:
        return f"a rank ended the program (status {run.status})", ENDS
    kind = hang_hints.kind_of(report)
    if run.verdict.startswith("wrong: "):  # a pure function, which knows nothing of ranks
        return "it has not returned", hint_of(run.verdict, kind) or ENDLESS
    return "\n".join(report), hint_of(run.verdict, kind) or hang_hints.HINTS.get(kind) or hint


def small_run(run: Run, words: list[str], folder: pathlib.Path, on: tuple[int, ...] = ()) -> SmallRun | None:
    """The messages of the smallest run in which they are not ours, or of another one if there is none. A solution
    that hangs on fewer ranks than those of `run` may not hang on these."""
    ranks, file = int(run.setting.split()[0]), folder / f"drawing{on}"
    if "--trace" in words:  # which has the messages of the wrong run
        place = words.index("--trace")
        words = words[:place] + words[place + 2 :]
    # On 2 ranks, both neighbours are the same rank, and r - 1 is r + 1.
    for smallest in on or dict.fromkeys([min(3, ranks), ranks, 2]):
        if smallest <= ranks and not file.exists():
            job = Job(folder, str(ranks), [*words, "--draw", str(file), "--smallest", str(smallest)])
            try:
                job.finish()
            finally:
                job.kill()
    return run_in(file)


def draw(path: str, exercise: str, drawn: SmallRun | None, run: Run) -> str:
    """Returns a line that says where the page is, or why there is none."""
    if drawn is None and "  it did not finish" in run.verdict:
        return "\n(--draw: there is a picture only of a run that comes to its end; see the report above)"
    if drawn is None:
        return "\n(--draw: this exercise has no messages of its own to show)"
    write_page(pathlib.Path(path), exercise, drawn)
    return f"\nstep through your messages in a browser: {os.path.relpath(path)}"


def hint_of_messages(drawn: SmallRun, code: str) -> str:
    """What the messages of a small run show and a check does not see; empty if they show nothing more."""
    rank = passes_on_its_own(drawn)
    if rank is not None:
        return (
            f"rank {rank} passes on what it had before the call. What it has received is elsewhere in `data`, or "
            "arrives too late."
        )
    if mistake := messages_missing(drawn) or adds_what_arrives(drawn):
        return mistake
    if not has_right_messages(drawn):
        return ""
    if ends_as_it_began(drawn):
        return UNCHANGED if copies_span(code) else ELSEWHERE
    if divided := divided_on_some(drawn):
        return divided
    if drawn["rounds"] and is_different(drawn) and not has_sums(drawn):
        return WRITTEN
    if not ends_unlike(drawn):
        return ""
    return OTHER_END if has_sums(drawn) else OTHER_PLACE if drawn["chunks"] else ""


def is_said(remark: str, body: list[str]) -> bool:
    """Whether the answer has the point of a remark already."""
    point = "(0 - 1) % 4 is -1"
    return point in remark and any(point in line for line in body)


def code_of_solution() -> str:
    source = os.environ.get("EXERCISE_SOURCE")
    return code_of(pathlib.Path(source).read_text(errors="replace")) if source else ""


def answer_to(run: Run, drawn: SmallRun | None, on_two: SmallRun | None = None) -> str:
    """What is wrong, in the form of the program's verdict; with the messages of a small run, and of one on 2 ranks."""
    code = code_of_solution()
    first, *body = [line for line in run.verdict.splitlines() if not line.startswith("hint if ") and line != DRAWABLE]
    if first == "not started":
        return first
    if first == "done":
        first = (
            f"wrong: with mpirun -np {run.setting}, all checks pass, "
            "but then the program does not end as it should [end]"
        )
        body = [f"  {run.ended or crash_in(run) or f'it ended with status {run.status}'}", f"hint: {ENDS}"]
    elif "  it did not finish" in body:
        why, hint = why_it_ended(run)
        body = [*(f"  {line}" for line in why.splitlines()), f"hint: {hint}"]
        if run.call:
            body.insert(0, f"  it was called with {run.call}")
        if run.mistake:
            first, seen, *rest = run.mistake.splitlines()
            body = [seen, *(line for line in body if not line.startswith("hint: ")), *rest]
            body = [line for line in body if line != DRAWABLE]
    if "MPI_COMM_WORLD" in code:
        body = [line for line in body if not line.startswith("hint: ")]
        body.append(
            "hint: it uses MPI_COMM_WORLD. The ranks that call this function are those of comm, which may be "
            "fewer and in another order: pass comm.get() to MPI."
        )
    else:
        better = likely_mistake(code, "\n".join([first, *body]))
        if not better and drawn is not None and "[waits]" not in first:  # there, nothing may have arrived yet
            better = hint_of_messages(drawn, code)
        if not better and on_two is not None and is_different(on_two) and "[waits]" not in first:
            better = hint_of_messages(on_two, code).replace(
                "the messages are right", "on 2 ranks, all messages are right"
            )
        better = better or hint_of_warnings()
        body = [f"hint: {better}" if better and line.startswith("hint: ") else line for line in body]
    is_even = drawn is not None and drawn["lengths"][0] % drawn["ranks"] == 0
    if drawn and is_even and is_different(drawn) and "[guard-zones]" in first and not has_right_messages(drawn):
        body = [
            f"hint: look at the messages below first: they differ where all lengths are alike. Otherwise, {line[6:]}"
            if line.startswith("hint: ")
            else line
            for line in body
        ]
    if drawn is not None and (lost := unreceived(drawn)):
        sender, rank = lost[0]
        if sender == rank or is_due(drawn, sender, rank):
            hint = TO_ITSELF if sender == rank else DUE.format(rank)
            body = [f"hint: {hint}" if line.startswith("hint: ") else line for line in body]
        lines = [f"  rank {sender} has sent a message to rank {rank}, but rank {rank} never receives it"]
        place = next((number for number, line in enumerate(body) if line.startswith("hint: ")), len(body))
        body[place:place] = lines
    if static_variable(code) and f"hint: {CRASH}" in body:
        body[body.index(f"hint: {CRASH}")] = f"hint: {STATIC}"
    elif name := static_variable(code):
        asks = f"`{name}` outlives a call: does it matter what an earlier one has left in it? Otherwise, "
        body = [
            f"hint: {asks}{line[6:]}" if line.startswith("hint: ") and "static" not in line else line for line in body
        ]
    body += [f"({remark})" for remark in remarks(code) if not is_said(remark, body)]
    body += warnings()
    if run.printed > MOST_PRINTED:
        body.append(PRINTED.format(run.printed / 1e6))
    if "--strict" in run.setting and "  it did not finish" in run.verdict.splitlines():
        body.append(
            "(this run used --strict, so MPI_Send did not buffer: a solution must not depend on MPI's buffering)"
        )
    if drawn is not None and is_different(drawn):
        body += table(drawn, int(os.environ.get("EXERCISE_WIDTH") or 0))
    lines = printed(run.log, {world: place.rank for world, place in enumerate(run.places)})
    log = os.environ.get("EXERCISE_LOG")
    if log:
        pathlib.Path(log).write_text("\n".join(lines) + "\n" + run.log, errors="backslashreplace")
    if lines:
        where = f", and all of it in {os.path.relpath(log)}" if log else ""
        body += [f"the last that it printed{where}:", *(f"  {line[:200]}" for line in lines[-LAST_LINES:])]
    return "\n".join([first, *body])


def wrapped(answer: str) -> str:
    width = int(os.environ.get("EXERCISE_WIDTH") or 0)
    if not width:
        return answer
    first = " " * int(os.environ.get("EXERCISE_INDENT") or 0)  # is already on the line
    lines = []
    for number, line in enumerate(answer.splitlines()):
        if line.startswith(TABLE):
            lines.append(line)
            continue
        begin = first if number == 0 else line[: len(line) - len(line.lstrip())]
        rest = begin if line.startswith("  ") and number else "  "
        lines += textwrap.wrap(
            line.strip(), max(width, 40), initial_indent=begin, subsequent_indent=rest, break_long_words=False
        ) or [""]
    return "\n".join(lines)[len(first) :]


def runs() -> list[str]:
    text = os.environ.get("EXERCISE_RANKS", "")
    return text.split(",") if "," in text or "--" in text else text.split() or RUNS


def judge(words: list[str], folder: pathlib.Path) -> tuple[int, str]:
    """The status and the answer."""
    costs, page = "", os.environ.get("EXERCISE_DRAWING")
    exercise = re.sub(r"^exercise_\d\d_", "", pathlib.Path(words[0]).name)
    for setting in runs():
        job = Job(folder, setting, words)
        try:
            run = job.finish()
        finally:
            job.kill()
        first, *rest = run.verdict.splitlines() or [""]
        did_not_finish = "  it did not finish" in rest
        if did_not_finish and run.printed > MOST_PRINTED:  # ranks that print wait for mpirun
            return 4, f"not judged: it printed {run.printed / 1e6:.0f} MB, so it was ended; {PRINT_LESS}"
        if run.unjudged:
            return 4, f"not judged: {run.unjudged}"
        if not first:  # it never reached the checks
            return 2, run.log.strip() or f"error: {exercise}: it ended with status {run.status} before any check"
        if first != "done" or run.status != 0 or run.ended:
            # The runs of a drawing would see what earlier ones have left in a static variable.
            draws = DRAWABLE in run.verdict and not did_not_finish and not static_variable(code_of_solution())
            drawn = small_run(run, words, folder) if draws else None
            more = drawn is not None and drawn["ranks"] > 2 and not has_right_messages(drawn)
            on_two = small_run(run, words, folder, on=(2,)) if more else None
            answer = answer_to(run, drawn, on_two) + (draw(page, exercise, drawn, run) if page else "")
            return 3 if answer == "not started" else 1, answer
        if setting == "4":
            threads = [f"({THREAD})"] if starts_thread(code_of_solution()) else []
            costs = "".join(f"\n{line}" for line in [*rest, *threads, *warnings()] if line != "pure")
        if run.printed > MOST_PRINTED and "it printed" not in costs:
            costs += "\n" + PRINTED.format(run.printed / 1e6)
        if "pure" in rest:
            break
    if page:
        costs += draw(page, exercise, small_run(run, words, folder), run)
    return 0, "done" + costs


def main(words: list[str]) -> int:
    def stop(number: int, _: object) -> None:
        sys.exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    adopt()
    folder: pathlib.Path | None = None
    try:
        folder = pathlib.Path(tempfile.mkdtemp())  # checks may write here
        status, answer = judge(words, folder)
    except OSError as error:  # for example a full disk
        status, answer = 2, f"error: {error.filename or 'temporary files'}: {error.strerror}"
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    print(printable(wrapped(answer), keep="\n\t"), file=sys.stderr if status == 2 else sys.stdout)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
