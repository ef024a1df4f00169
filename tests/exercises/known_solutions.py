#!/usr/bin/env python3
"""known_solutions.py PROGRAM [--jobs N] [--only REGEX] [--third]: judges the known solutions in PROGRAM
(those like REGEX), which test the checks. With --third, these are the right ones and a third of the wrong
ones, the one whose number $THIRD is (0, 1 or 2). Each must be refused by the check, and get the hint, that
tools/exercises/LESSON/EXERCISE_solutions.hpp says. And each check must have a solution that passes all
checks before it and that it refuses, because a check that refuses nothing proves nothing.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = HERE.parents[1] / "tools/exercises"
sys.path[:0] = [str(TOOLS), str(TOOLS.parent / "learn")]
from commands import MPI_ENVIRONMENT  # noqa: E402
from exercises import Known, exercises_of, known_solutions  # noqa: E402


def problem(solution: Known, status: int, answer: str) -> str:
    """What is wrong with the judge's answer to this solution; empty if nothing is."""
    if solution.check == "done":
        return "" if status == 0 else "it should be done"
    if status != 1 or not re.search(rf"^wrong.*\[{solution.check}\]", answer, re.M):
        return f"the check '{solution.check}' should fail"
    if not re.search(rf"^(hint: |  ).*{re.escape(solution.hint)}", answer, re.M):  # or what was seen
        return f"the hint should say '{solution.hint}'"
    return "it should fail a check, not crash" if re.search("^  it crashed", answer, re.M) else ""


def judged(program: str, group: list[Known]) -> list[str]:
    """The right solutions of an exercise share their runs, unless that says that one is wrong."""
    names = ",".join(f"{each.exercise.name}/{each.name}" for each in group)
    command = [str(TOOLS / "judge.py"), program, "--solution", names]
    # On a busy machine, nothing may move for seconds; a right solution can wait for that.
    patience = {"EXERCISE_TIMEOUT": "20"} if group[0].check == "done" else {}
    with tempfile.NamedTemporaryFile("w", suffix=".hpp") as source:
        source.write("".join(each.text for each in group))
        source.flush()
        result = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            env={**MPI_ENVIRONMENT, **os.environ, **patience, "EXERCISE_SOURCE": source.name},
        )
    wrong = problem(group[0], result.returncode, result.stdout)
    if wrong and len(group) > 1:
        return [text for each in group for text in judged(program, [each])]
    return [f"{names}: {wrong}; run {' '.join(command)}\n{result.stdout}"] if wrong else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="solutions_NN")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="EXERCISE/NAME like this regular expression")
    parser.add_argument("--third", action="store_true", help="of the wrong ones")
    options = parser.parse_args()
    listed = subprocess.run([options.program, "--list"], check=True, capture_output=True, text=True).stdout
    checks = re.findall(r"^(\w+)/([\w-]+): ", listed, re.M)  # of the exercises in the program
    known = [
        solution
        for exercise in exercises_of(pathlib.Path(options.program).name[-1])
        if exercise.name in dict(checks)
        for solution in known_solutions(exercise)
    ]
    refused = {(each.exercise.name, each.check) for each in known}
    problems = [
        f"{exercise}/{check}: no known solution is refused by this check\n"
        for exercise, check in checks
        if (exercise, check) not in refused
    ]
    print("".join(problems), end="")

    chosen = [each for each in known if re.match(options.only, f"{each.exercise.name}/{each.name}")]
    if options.third:
        wrong = [each for each in chosen if each.check != "done"][int(os.environ.get("THIRD", 0)) :: 3]
        chosen = [each for each in chosen if each.check == "done" or each in wrong]
    groups = collections.defaultdict(list)
    for each in chosen:
        groups[each.exercise.name, each.check == "done" or each.name].append(each)
    finished, failed = 0, 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for group, said in zip(groups.values(), pool.map(lambda it: judged(options.program, it), groups.values())):
            finished, failed = finished + len(group), failed + len(said)
            print("".join(said) + f"{finished} of {len(chosen)} solutions judged", flush=True)
    if failed:
        print(f"FAILED: {failed} of {len(chosen)} known solutions are judged differently")
    return 1 if failed or problems or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
