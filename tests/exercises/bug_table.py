#!/usr/bin/env python3
"""bug_table.py [--check] BUILD: the table of bugs in each lesson's README, section "Further".

Made of tests/exercises/NN_x/solutions.txt (which wrong solution fails which check) and of what
the judge says there (BUILD/tests/solutions_NN --list), and written between two marks. With
--check nothing is written, and a README that is not up to date is a mistake: exit status 1.

A build without emulated GPUs cannot say the hints of NCCL exercises: their rows are left as they
stand in the README.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BEGIN = "<!-- bugs: made by tests/exercises/bug_table.py BUILD; do not edit -->"
END = "<!-- end of bugs -->"


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


def cell(text):
    return text.replace("|", "\\|").strip()


def row_of(solution, checks):
    exercise, name, check, words, ones, bug = solution
    if (exercise, check) not in checks:
        raise SystemExit(f"{exercise}/{name}: there is no check '{check}'")
    must, *hints = checks[exercise, check]
    fitting = [hint for hint in hints if words in hint]
    if not fitting:
        raise SystemExit(f"{exercise}/{name}: the hint of '{check}' lacks '{words}'")
    cells = f"`{exercise}`", f"{bug} (*{name}*)", f"*{check}*: {must}", fitting[0], ones
    return "| " + " | ".join(map(cell, cells)) + " |"


def table_of(folder, program, present):
    checks = checks_of(program)
    judged = {exercise for exercise, _ in checks}
    kept = {re.match(r"\| `(\w+)` \| .* \(\*([\w-]+)\*\) \|", line): line
            for line in present.splitlines()}
    kept = {match.groups(): line for match, line in kept.items() if match}
    rows = []
    for solution in wrong_solutions(folder / "solutions.txt"):
        if solution[0] in judged:
            rows.append(row_of(solution, checks))
        elif solution[:2] in kept:
            rows.append(kept[solution[:2]])
        elif not solution[0].startswith("nccl"):
            raise SystemExit(f"{program.name} has no exercise {solution[0]}")
        else:
            print(f"{folder.name}: {solution[0]}/{solution[1]} needs a build with emulated GPUs")
    return "\n".join([
        "<details><summary>The bugs that the checks know: what finds them, and the hint that follows "
        f"({len(rows)}; the hints tell much)</summary>",
        "",
        "The last column: whether a test of the values passes when all data are 1 (-: there are no data).",
        "",
        "| exercise | bug | check that finds it | hint | ones pass |",
        "|---|---|---|---|---|",
        *rows,
        "",
        "</details>",
    ])


def main():
    check = sys.argv[1:2] == ["--check"]
    build = pathlib.Path(sys.argv[-1]).resolve()
    failed = False
    for readme in sorted(ROOT.glob("0[1-5]_*/README.md")):
        lesson = readme.parent.name
        folder = ROOT / "tests" / "exercises" / lesson
        text = readme.read_text()
        before, begin, rest = text.partition(BEGIN + "\n")
        present, end, after = rest.partition("\n" + END)
        if not (begin and end):
            if (folder / "solutions.txt").exists():
                print(f'FAILED: {lesson}/README.md lacks, in its section "Further", the two lines\n{BEGIN}\n{END}')
                failed = True
            else:
                print(f"skipped: {lesson} has no table and no solutions")
            continue
        wanted = table_of(folder, build / "tests" / f"solutions_{lesson[:2]}", present)
        if wanted == present:
            print(f"ok: {lesson}/README.md")
        elif check:
            print(f"FAILED: the table of bugs in {lesson}/README.md is not up to date: "
                  "run tests/exercises/bug_table.py BUILD, on an emulated build if you can")
            failed = True
        else:
            readme.write_text(before + begin + wanted + end + after)
            print(f"written: {lesson}/README.md")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
