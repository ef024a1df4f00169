#!/usr/bin/env python3
"""Calls of ./learn: what was typed, in what circumstances, and what it answered (learn_calls.txt).

    tests/net/learn_calls.py [--only REGEX]     makes the calls again, and lists differences
    tests/net/learn_calls.py --record           writes what is answered now

A call is a block: "== NAME"; lines "$ ..." of a bash script, which runs in a fresh copy of the course;
then its exit status ("? 0"), standard output ("1 ..."), standard error ("2 ...") and, in order, the
commands that it ran ("> ..."). These are not the real ones but those in scene/, which note how they
were called: nothing is compiled or installed. Where the name ends with "(real)", they are real, the
build folder is kept from call to call, and numbers with a point are not compared. Where it ends with
"(root)", only root can make the call. scene/functions.sh has the functions that scripts use.

The copy, homes and builds are in $NET (build/net). To add a call, write its name and script, and record.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FILE = HERE / "learn_calls.txt"
PLACE = pathlib.Path(os.environ.get("NET", ROOT / "build/net")).resolve()
PRISTINE, SCENE, REAL = PLACE / "pristine", PLACE / "scene", PLACE / "real"
LIMIT_S = 300

Block = tuple[str, list[str], list[str]]


def read_blocks() -> list[Block]:
    """A list of (name, script, answer), the latter two as lists of lines."""
    blocks: list[Block] = []
    for line in FILE.read_text().splitlines():
        if line.startswith("== "):
            blocks.append((line[3:], [], []))
        elif line.startswith("$"):
            blocks[-1][1].append(line[2:])
        elif line and not line.startswith("# "):
            blocks[-1][2].append(line)
    return blocks


def make_pristine() -> None:
    shutil.rmtree(PRISTINE, ignore_errors=True)
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    for name in listed.split("\0"):
        if name and (ROOT / name).is_file():
            (PRISTINE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, PRISTINE / name)


def make_scene(real: bool) -> None:
    """A fresh clone in SCENE/course, and beside it a home, a path of commands, and a log."""
    for path in SCENE.glob("*"):
        subprocess.run(["rm", "-rf", path], check=True)
    shutil.copytree(PRISTINE, SCENE / "course", symlinks=True)
    if real:
        REAL.mkdir(exist_ok=True)
        (SCENE / "course/build").symlink_to(REAL)
    shutil.copytree(HERE / "scene", SCENE / "path")
    for judge in () if real else (SCENE / "course").glob("*/exercises/judge.py"):
        shutil.copy(SCENE / "path/judge", judge)
    for folder in ("home", "tmp"):
        (SCENE / folder).mkdir()
        (SCENE / folder).chmod(0o1777)
    (SCENE / "log").touch()
    (SCENE / "log").chmod(0o666)
    SCENE.chmod(0o755)


def environment(real: bool) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "CUDA_HOME") if name in os.environ}
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {
        **kept,
        "PATH": path if real else f"{SCENE}/path:{path}",
        "HOME": f"{SCENE}/home",
        "TMPDIR": f"{SCENE}/tmp",
        "LC_ALL": "C.UTF-8",
        "USER": "reader",
        "SCENE": str(SCENE),
        "TERM": "dumb",
        "REAL": "1" if real else "",
    }


def normal(text: str, real: bool) -> str:
    text = text.replace(f"{SCENE}/course", "COURSE").replace(str(SCENE), "SCENE").replace("\r\n", "\n")
    text = text.replace(str(REAL), "COURSE/build")
    text = re.sub(r"has \d{4,} MiB free", "has many MiB free", text)
    text = re.sub(r"/tmp/tmp\.\w+", "TEMPORARY", text)
    text = re.sub(r"progress\.\d+", "progress.PID", text)
    text = re.sub(r"\bat \d\d:\d\d:\d\d\b", "at TIME", text)
    text = re.sub(r"\[\d+,\d+\]", "[JOB]", text)
    text = re.sub(r"(\bpid |PID |process )\d+", r"\1N", text)
    if real:
        text = re.sub(r"^-- CUDA: .*", "-- CUDA: ...", text, flags=re.MULTILINE)
        text = re.sub(r"\d+\.\d+(e[+-]?\d+)?", "#.#", text)
    return text


def answer(name: str, script: list[str]) -> list[str]:
    real = name.endswith("(real)")
    make_scene(real)
    try:
        done = subprocess.run(
            ["bash", "-c", f". {SCENE}/path/functions.sh\n" + "\n".join(script)],
            cwd=SCENE / "course",
            env=environment(real),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return ["? no end"]
    ran = (SCENE / "log").read_bytes()
    lines = [f"? {done.returncode}"]
    for mark, said in ("1", done.stdout), ("2", done.stderr), (">", ran):
        text = normal(said.decode(errors="replace"), real)
        lines += [f"{mark} {line}".rstrip() for line in text.splitlines()]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    make_pristine()
    shutil.rmtree(REAL, ignore_errors=True)
    SCENE.mkdir(parents=True, exist_ok=True)
    blocks, different, made = read_blocks(), 0, 0
    for index, (name, script, expected) in enumerate(blocks):
        if not re.search(options.only, name) or name.endswith("(root)") and os.getuid() != 0:
            continue
        found = answer(name, script)
        made += 1
        if options.record:
            blocks[index] = (name, script, found)
        elif found != expected:
            different += 1
            print(f"== {name}", *(f"$ {line}" for line in script), sep="\n")
            print(
                *(f"- {line}" for line in expected if line not in found),
                *(f"+ {line}" for line in found if line not in expected),
                *["(the same lines in another order)"] * (sorted(found) == sorted(expected)),
                sep="\n",
            )
    if options.record:
        FILE.write_text(
            "\n".join(
                "\n".join([f"== {name}", *(f"$ {line}" for line in script), *said, ""]) for name, script, said in blocks
            )
        )
    print(f"{made} calls, {different} answered differently")
    return 1 if different or not made else 0


if __name__ == "__main__":
    sys.exit(main())
