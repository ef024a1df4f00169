#!/usr/bin/env python3
"""What the judge says of each known solution: the check that refuses it, and its first hint.

    tests/net/known_solutions.py BUILD [--only REGEX]     compares with known_solutions.txt
    tests/net/known_solutions.py BUILD --record           writes it again

BUILD has the programs tests/solutions_01 ... 05. Solutions of nccl exercises are left out unless it is
emulated. tools/exercises/LESSON/*_solutions.hpp say what a hint must contain; the table says
the whole, so that a move of the judge, or another form of the exercises, cannot lose a word of it.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TABLE = HERE / "known_solutions.txt"
JUDGE = ROOT / "tools/exercises/judge.py"
sys.path.insert(0, str(JUDGE.parent))
import exercises  # noqa: E402


def judged(program, solution):
    """One line: LESSON/EXERCISE/SOLUTION | check or done | first hint."""
    result = subprocess.run([JUDGE, program, "--solution", solution], text=True, errors="replace",
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env={**os.environ, **ENVIRONMENT})
    check = re.search(r"^wrong.*\[(.*)\]", result.stdout, re.M)
    hint = re.search(r"^hint: (.*)", result.stdout, re.M)
    verdict = "done" if result.returncode == 0 else check[1] if check else f"? {result.stdout!r}"
    return f"{program.name[-2:]}/{solution} | {verdict} | {hint[1] if hint else ''}"


def listed():
    """LESSON/EXERCISE/SOLUTION of all known solutions."""
    return [f"{lesson[:2]}/{exercise.name}/{solution.name}" for lesson in exercises.LESSONS
            for exercise in exercises.exercises_of(lesson) if exercise.function
            for solution in exercises.known_solutions(exercise)]


def is_emulated(build):
    return "DIST_CUDA:STRING=EMULATED" in (build / "CMakeCache.txt").read_text()


ENVIRONMENT = dict(line.split("=", 1) for line
                   in (ROOT / "tools/learn/mpi.env").read_text().splitlines() if line[0] != "#")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    known = {line.split(" | ")[0]: line for line in TABLE.read_text().splitlines()}
    names = [name for name in dict.fromkeys(listed() if options.record else [*known, *listed()])
             if re.search(options.only, name) and (is_emulated(options.build) or "/nccl" not in name)]
    jobs = [(options.build / f"tests/solutions_{name[:2]}", name[3:]) for name in names]
    lines = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for line in pool.map(lambda job: judged(*job), jobs):
            lines.append(line)
            print(f"{len(lines)} of {len(jobs)}: {line}", file=sys.stderr)
    if options.record:
        known.update((line.split(" | ")[0], line) for line in lines)
        TABLE.write_text("".join(f"{known[name]}\n" for name in sorted(known)))
        return 0
    found = {line.split(" | ")[0]: line for line in lines}
    different = [name for name in found if known.get(name) != found[name]]
    for name in different:
        print(f"- {known.get(name, 'not recorded')}\n+ {found[name]}")
    print(f"{len(found)} known solutions, {len(different)} judged differently")
    return 1 if different or not found else 0


if __name__ == "__main__":
    sys.exit(main())
