#!/usr/bin/env python3
"""Plants known mistakes in a copy of the course, one after another, and expects a test to fail.

    tests/mutants/run.py [NAME...]      all of mutants.toml, or these; --list prints their names

Each mutant has the text that it replaces, which must occur once in its file, and the test that must
notice it, a shell command in tests/. The copy and its build are in $MUTANTS (build/mutants). Before a
test is used for the first time, it must pass. All of them take hours, so CI does not run this.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import time

import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PLACE = pathlib.Path(os.environ.get("MUTANTS", ROOT / "build/mutants"))
COPY = PLACE / "course"
BUILD = {preset: PLACE / f"build-{preset}" for preset in ("cpu", "emulated")}
LIMIT_S = 300  # for a test; a mutant may hang


def shell(
    command: str, folder: pathlib.Path = COPY, limit: int | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    environment = dict(
        line.split("=", 1) for line in (ROOT / "tools/learn/mpi.env").read_text().splitlines() if line[0] != "#"
    )
    environment |= {"TEST_CASE_SECONDS": "30", "PYTHONDONTWRITEBYTECODE": "1", **more}
    return subprocess.run(
        ["timeout", "-k", "10", str(limit or 7200), "bash", "-c", command],
        cwd=folder,
        text=True,
        errors="replace",
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )


def prepare() -> None:
    """Copies what git tracks, as it is now. Unchanged files keep their times, so little is rebuilt."""
    names = {*shell("git -c safe.directory='*' ls-files -z", ROOT).stdout.split("\0")}
    for gone in [path for path in COPY.rglob("*") if path.is_file()]:
        if str(gone.relative_to(COPY)) not in names:
            gone.unlink()
    for name in names:
        source, copy = ROOT / name, COPY / name
        if not source.is_file() or copy.is_file() and copy.read_bytes() == source.read_bytes():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)


def build(mutant: dict[str, str]) -> subprocess.CompletedProcess[str]:
    folder = BUILD[mutant.get("preset", "cpu")]
    if not (folder / "build.ninja").exists():
        configured = shell(f"cmake --preset {mutant.get('preset', 'cpu')} -B {folder}")
        if configured.returncode != 0:
            return configured
    return shell(f"cmake --build {folder} --target {mutant['needs']}")


def test(mutant: dict[str, str]) -> subprocess.CompletedProcess[str]:
    folder = str(BUILD[mutant.get("preset", "cpu")])
    python = f"{sys.executable} -m pytest -q -x -p no:cacheprovider "
    return shell(mutant["test"].replace("pytest ", python), COPY / "tests", LIMIT_S, BUILD=folder, DIST_BUILD=folder)


def outcome(mutant: dict[str, str], passes: set[str]) -> str:
    """What became of a mutant. `passes` notes the tests that pass without one."""
    file = COPY / mutant["file"]
    whole = file.read_text()
    if whole.count(mutant["old"]) != 1:
        return f"STALE: its text occurs {whole.count(mutant['old'])} times in {mutant['file']}"
    if mutant["test"] not in passes:
        if build(mutant).returncode != 0 or test(mutant).returncode != 0:
            return f"UNUSABLE: {mutant['test']} does not pass without it"
        passes.add(mutant["test"])
    try:
        file.write_text(whole.replace(mutant["old"], mutant["new"]))
        built = build(mutant)
        if built.returncode != 0:
            return "UNUSABLE: it does not compile: " + built.stdout[-800:]
        status = test(mutant).returncode
        return f"noticed ({status})" if status not in (0, 5) else "SURVIVED"  # 5: pytest chose none
    finally:
        file.write_text(whole)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--file", type=pathlib.Path, default=HERE / "mutants.toml", help="other mutants")
    options = parser.parse_args()
    mutants = {each["name"]: each for each in tomllib.loads(options.file.read_text())["mutant"]}
    unknown = [name for name in options.names if name not in mutants]
    if unknown:
        parser.error(f"no mutant is called {', '.join(unknown)}")
    if options.list:
        print(*mutants, sep="\n")
        return 0
    prepare()
    passes: set[str] = set()
    bad = 0
    for name in options.names or mutants:
        begin = time.monotonic()
        found = outcome(mutants[name], passes)
        bad += not found.startswith("noticed")
        print(f"{name}: {found}, {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{len(options.names or mutants)} mutants, {bad} not noticed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
