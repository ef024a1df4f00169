#!/usr/bin/env python3
"""bug_pages.py [--check] BUILD: writes tests/exercises/NN_x/bugs.md, which lists the mistakes that
each lesson's checks recognize.

Each page is made from the solutions.txt in its folder (which wrong solution fails which check) and
from the judge's texts (BUILD/tests/solutions_NN --list). With --check nothing is written, and the
exit status is 1 if a page is out of date.

A build without emulated GPUs lacks the hints of the NCCL exercises, so their sections are left
unchanged.
"""

import pathlib
import re
import subprocess
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent


def checks_of(program):
    """{(exercise, check): (what it must do, hint, hint if it hangs)}"""
    lines = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout
    checks = {}
    for line in lines.splitlines():
        exercise, check, must, hint, if_it_hangs = line.split("\t")
        checks[exercise, check] = must, hint, if_it_hangs
    return checks


def wrong_solutions(table):
    for line in table.read_text().splitlines():
        if not re.match("[a-z]", line):
            continue
        exercise, solution, check, words, ones, bug = (c.strip() for c in line.split("|"))
        if check != "done":
            yield exercise, solution, check, words, ones, bug


def wrap(text, first="", rest=""):
    # A line that begins with "- ", "+ " or "1. " would start a list.
    text = re.sub(r" (?=[-+] |\d+\. )", "\0", text)
    return textwrap.fill(text, 110, initial_indent=first, subsequent_indent=rest,
                         break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def section_of(exercise, solutions, checks):
    """The exercise's mistakes, grouped by check and hint."""
    groups = {}
    for _, name, check, words, ones, bug in solutions:
        if (exercise, check) not in checks:
            raise SystemExit(f"{exercise}/{name}: the exercise has no check '{check}'")
        must, *hints = checks[exercise, check]
        fitting = [hint for hint in hints if words in hint]
        if not fitting:
            raise SystemExit(f"{exercise}/{name}: the hint of '{check}' lacks '{words}'")
        missed = "; a test with all-ones data misses it" if ones == "yes" else ""
        groups.setdefault((check, must, fitting[0]), []).append(f"{bug} (*{name}*){missed}")
    lines = [f"## {exercise}", ""]
    for (check, must, hint), bugs in groups.items():
        lines += [wrap(f"**{check}**: {must}.".replace("..", ".")), ""]
        lines += [wrap(bug, "- ", "  ") for bug in bugs]
        lines += ["", wrap(f"Hint: {hint}.", "> ", "> "), ""]
    return "\n".join(lines)


def page_of(lesson, checks, present):
    kept = {part.split("\n", 1)[0]: "## " + part for part in present.split("## ")[1:]}
    solutions = {}
    for solution in wrong_solutions(HERE / lesson / "solutions.txt"):
        solutions.setdefault(solution[0], []).append(solution)
    judged = {exercise for exercise, _ in checks}
    page = f"# {lesson}: mistakes that the checks recognize\n\n" + wrap(
        "This page gives the answers away. Each mistake is a test case: the check named above "
        "the mistake must fail and print the hint below.") + "\n\n"
    for exercise, wrong in solutions.items():
        if exercise in judged:
            page += section_of(exercise, wrong, checks)
        elif exercise in kept:
            page += kept[exercise]
        else:
            print(f"{lesson}: {exercise} needs a build with emulated GPUs")
        page = page.rstrip("\n") + "\n\n"
    return page.rstrip("\n") + "\n"


def main():
    check = sys.argv[1:2] == ["--check"]
    build = pathlib.Path(sys.argv[-1]).resolve()
    failed = False
    for folder in sorted(HERE.glob("0[1-5]_*")):
        file = folder / "bugs.md"
        present = file.read_text() if file.exists() else ""
        checks = checks_of(build / "tests" / f"solutions_{folder.name[:2]}")
        page = page_of(folder.name, checks, present)
        if page == present:
            print(f"ok: {folder.name}/bugs.md")
        elif check:
            print(f"FAILED: {folder.name}/bugs.md is out of date: run "
                  "tests/exercises/bug_pages.py BUILD, preferably with an emulated build")
            failed = True
        else:
            file.write_text(page)
            print(f"written: {folder.name}/bugs.md")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
