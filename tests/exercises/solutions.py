#!/usr/bin/env python3
"""The known solutions of the exercises, right and wrong, which test the checks.

solutions.py write LESSON OUTPUT.cpp [--nccl]: writes a program with all solutions of a lesson
solutions.py judge LESSON PROGRAM [--jobs N] [--only REGEX]: judges them (those like REGEX)
solutions.py reference LESSON EXERCISE: prints the reference as a reader's EXERCISE.hpp

LESSON is a folder such as 01_send_recv. Each row of LESSON/solutions.txt is a solution: exercise,
name, the check that it fails (or done), words of the hint, and what is wrong with it. Solution
EXERCISE/SOME-NAME is the function EXERCISE_SOME_NAME below "// == EXERCISE/SOME-NAME" in
LESSON/solutions.hpp or LESSON/*_solutions.hpp. If indented lines follow the row, it is an edited
copy, in its own namespace: "OLD => NEW" replaces the only occurrence of OLD. It is a copy of
EXERCISE/reference, or of EXERCISE/NAME after a line "of NAME", which also counts for the exercise's
next copies. "= BODY" replaces the reference's whole body.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
Row = collections.namedtuple("Row", "exercise name verdict hint mistake base edits body")


def read_rows(lesson):
    rows, base = [], "reference"
    for line in (HERE / lesson / "solutions.txt").read_text().splitlines():
        if re.match("[a-z]", line):
            cells = [cell.strip() for cell in line.split("|")]
            if not rows or cells[0] != rows[-1].exercise:
                base = "reference"
            rows.append(Row(*cells, base, [], []))
        elif line.startswith("  of "):
            base = line[len("  of "):]
            rows[-1] = rows[-1]._replace(base=base)
        elif line.startswith("  = "):
            rows[-1].body.append(line[len("  = "):])
        elif line.startswith(" "):
            old, new = re.fullmatch(r"\s+(\S.*?) =>(.*)", line).groups()
            rows[-1].edits.append((old, new.strip()))
    return rows


def read_sections(lesson):
    """The text below each "// == TITLE", up to the next one, a preprocessor line or the end."""
    text = "".join(file.read_text() for file in (HERE / lesson).glob("*solutions.hpp"))
    pieces = re.split(r"^(?:// == |#|\}  // namespace)(.*)\n", text, flags=re.M)
    return dict(zip(pieces[1::2], pieces[2::2]))


def function(exercise, name):
    return f"{exercise}_{name.replace('-', '_')}"


def write(lesson, output, nccl):
    sections, copies, table = read_sections(lesson), "", ""
    for row in read_rows(lesson):
        if row.exercise.startswith("nccl") and not nccl:
            continue
        solution = function(row.exercise, row.name)
        if row.edits or row.body:
            base = "reference" if row.body else row.base
            text = sections[f"{row.exercise}/{base}"]
            if row.body:
                text = "\n".join([text[:text.index("{\n") + 1], *row.body, "}\n"])
            for old, new in row.edits:
                if text.count(old) != 1:
                    sys.exit(f"error: {row.exercise}/{row.name}: '{old}' must occur once")
                text = text.replace(old, new)
            copies += f"namespace {solution} {{\n{text}}}\n"
            solution += "::" + function(row.exercise, base)
        table += f'{{"{row.exercise}", "{row.name}", checks_of_{row.exercise}({solution})}},\n'
    includes = "\n".join(f'#include "tests/exercises/{lesson}/{file.name}"'
                         for file in sorted((HERE / lesson).glob("*solutions.hpp"))
                         if nccl or not file.name.startswith("nccl"))
    pathlib.Path(output).write_text(f"""// Written by tests/exercises/solutions.py.
#include "tests/exercises/{lesson}/checks.hpp"
{includes}
namespace dist::exercise {{
{copies}}}  // namespace dist::exercise
int main(int argc, char** argv) {{
  using namespace dist::exercise;
  return run(argc, argv, {{{table}}});
}}
""")


def reference(lesson, exercise):
    texts = [file.read_text() for file in (HERE / lesson).glob("*solutions.hpp")]
    text = next(text for text in texts if f"// == {exercise}/reference\n" in text)
    includes = re.findall(r'^#include ["<].*\n', text, re.M)
    text = read_sections(lesson)[exercise + "/reference"].replace(exercise + "_reference", exercise)
    return f"{''.join(includes)}namespace dist::exercise {{\n{text}}}\n"


def problem(row, status, answer):
    """What is wrong with the judge's answer to this solution; empty if nothing is."""
    if row.verdict == "done":
        return "" if status == 0 else "it should be done"
    if status != 1 or not re.search(rf"^wrong: .*\[{row.verdict}\]", answer, re.M):
        return f"the check '{row.verdict}' should fail"
    if not re.search(rf"^hint: .*{re.escape(row.hint)}", answer, re.M):
        return f"the hint should say '{row.hint}'"
    return "it should fail a check, not crash" if re.search("^  it crashed", answer, re.M) else ""


def judge(lesson, program, jobs, only):
    """The right solutions of an exercise share their runs, unless that says that one is wrong."""
    listed = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout
    built = {line.split("/")[0] for line in listed.splitlines()}
    rows = [row for row in read_rows(lesson)
            if row.exercise in built and re.match(only, f"{row.exercise}/{row.name}")]
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row.exercise, row.verdict == "done" or row.name].append(row)
    finished, failed = 0, 0

    def judged(group):
        names = ",".join(f"{row.exercise}/{row.name}" for row in group)
        command = [str(HERE / "judge"), program, "--solution", names]
        # On a busy machine, nothing may move for seconds; a right solution can wait for that.
        patience = {"EXERCISE_TIMEOUT": "20"} if group[0].verdict == "done" else {}
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, errors="replace", stdin=subprocess.DEVNULL,
                                env={**os.environ, **patience})
        wrong = problem(group[0], result.returncode, result.stdout)
        if wrong and len(group) > 1:
            return [text for row in group for text in judged([row])]
        return [f"{names}: {wrong}; run {' '.join(command)}\n{result.stdout}"] if wrong else []

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for group, problems in zip(groups.values(), pool.map(judged, groups.values())):
            finished, failed = finished + len(group), failed + len(problems)
            print("".join(problems) + f"{finished} of {len(rows)} solutions judged", flush=True)
    if failed:
        print(f"FAILED: {failed} of {len(rows)} solutions are not judged as solutions.txt says")
    return failed > 0 or not rows


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, argument in [("write", "output"), ("judge", "program"), ("reference", "exercise")]:
        command = commands.add_parser(name)
        command.add_argument("lesson")
        command.add_argument(argument)
    commands.choices["write"].add_argument("--nccl", action="store_true")
    commands.choices["judge"].add_argument("--jobs", type=int, default=2)
    commands.choices["judge"].add_argument("--only", default="")
    options = parser.parse_args()
    if options.command == "write":
        write(options.lesson, options.output, options.nccl)
    elif options.command == "judge":
        sys.exit(judge(options.lesson, options.program, options.jobs, options.only))
    else:
        print(reference(options.lesson, options.exercise), end="")


if __name__ == "__main__":
    main()
