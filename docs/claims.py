#!/usr/bin/env python3
"""Writes docs/claims.md: every claim of docs/claims.txt, the command that shows it, what the command
printed, and the test that holds it.

  docs/claims.py --bin build/bin            runs every command and writes docs/claims.md
  docs/claims.py --bin build/bin --check    runs every command; fails if one does not show its
                                            claim, if a test does not exist, or if claims.md
                                            and claims.txt list different claims
  docs/claims.py --faults LOG               writes the section on faults, with the figures that
                                            the long form of tests/faults/ printed to LOG

claims.txt has a block of lines for each claim, separated by blank lines:

  taught: what is often taught but is wrong (only in the first section)
  claim:  what is true
  shown:  a command, as a reader types it from the root of the repository
  prints: a regular expression that its output must match; claims.md shows the match
  test:   FILE: words of its name; the test that holds the claim at other sizes and ranks

Claims that need a GPU (exit status 2) or a Python module that is missing here are left out.
"""
import argparse
import datetime
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE, LEDGER = ROOT / "docs/claims.txt", ROOT / "docs/claims.md"
FAULTS, FAULTS_TITLE = ROOT / "docs/faults.txt", "## What training survives"
KEYS = ("taught", "claim", "shown", "prints", "test")


def read_claims():
    """[(section title, [claim])]; a claim is a dictionary of KEYS."""
    sections = []
    claim = None
    for number, line in enumerate(SOURCE.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("## "):
            sections.append((line[3:], []))
            claim = None
        elif not line.strip():
            claim = None
        elif not line.startswith("#"):
            key, _, text = line.partition(":")
            if key not in KEYS or not sections:
                sys.exit(f"error: {SOURCE.name}:{number}: does not start with any of {', '.join(KEYS)}: {line}")
            if claim is None:
                claim = {}
                sections[-1][1].append(claim)
            claim[key] = text.strip()
    return sections


def environment():
    """The settings in the box of docs/running.md, without a GPU, so that all numbers are from the CPU."""
    box = dict(re.findall(r"^export (\w+)=(\S+)$", (ROOT / "docs/running.md").read_text(encoding="utf-8"),
                          re.MULTILINE))
    return {**box, **os.environ, "CUDA_VISIBLE_DEVICES": "", "OMPI_MCA_odls_base_sigkill_timeout": "0"}


def run(command, binaries, folder):
    command = command.replace("build/bin/", f"{binaries}/").replace(
        "build/tests/", f"{binaries.parent}/tests/")
    done = subprocess.run(["timeout", "120", "bash", "-c", command], cwd=folder, text=True,
                          capture_output=True, env=environment(), stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout + done.stderr


def problem_with_test(test):
    name, _, words = test.partition(": ")
    path = ROOT / "tests" / name
    if not path.exists():
        return f"tests/{name} does not exist"
    text = " ".join(re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8")).split())
    return None if words in text else f"tests/{name} does not contain '{words}'"


def wrap(text):
    """A list entry, in which no line begins with a shell's pipe, because that would begin a table."""
    return textwrap.fill(" ".join(text.split()).replace(" |", "\0|"), 110, initial_indent="- ", subsequent_indent="  ",
                         break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def entry(claim):
    taught = f"*{claim['taught']}.* " if "taught" in claim else ""
    held_by = re.sub(r": TEST_CASE\($", "", claim["test"])
    return wrap(f"{taught}**{claim['claim']}.** `{claim['shown']}` prints "
                f"`{claim.get('showed', '')}`. Held by {held_by}.")


def faults_section(log):
    """The section in claims.md, in which the figures from the log, if there is one, replace the old ones."""
    kept = LEDGER.read_text(encoding="utf-8").partition(FAULTS_TITLE)[2].split("\n- ")[1:]
    rows = {re.match(r"\*\*(\d+)\.", row)[1]: "- " + row.rstrip("\n") for row in kept}
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True,
                            capture_output=True).stdout.strip()
    figures = {}
    for row, text in re.findall(r"^figure (\d+): (.*)$", log.read_text() if log else "", re.MULTILINE):
        figures.setdefault(row, []).append(text)
    for line in FAULTS.read_text(encoding="utf-8").splitlines():
        row, fault, happens, command = line.split(" | ")
        if row in figures:
            rows[row] = wrap(f"**{row}. {fault}**: {happens}. Measured: {'; '.join(figures[row])} "
                             f"({datetime.date.today()}, {commit}, `{command}`).")
    return [FAULTS_TITLE, "",
            "These are the results of the long form of [tests/faults/](../tests/faults), with one entry",
            "for each file. `./learn test --all` runs the short form.", "",
            *[rows[row] for row in sorted(rows, key=int)], ""]


def without_numbers(lines):
    """The ledger without the commands' output, which differs from run to run."""
    return re.sub(r"prints `[^`]*`", "prints", " ".join("\n".join(lines).split()))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--faults", type=pathlib.Path, metavar="LOG")
    options = parser.parse_args()
    if options.faults:
        claims = LEDGER.read_text(encoding="utf-8").partition(FAULTS_TITLE)[0].splitlines()
        LEDGER.write_text("\n".join(claims + faults_section(options.faults)), encoding="utf-8")
        return
    binaries = options.bin.resolve()

    sections = read_claims()
    failed = 0
    for title, claims in sections:
        for claim in claims:
            for key in ("claim", "shown", "prints", "test"):
                if key not in claim:
                    sys.exit(f"error: {SOURCE.name}: '{claim}' has no '{key}:'")
            problem = problem_with_test(claim["test"])
            with tempfile.TemporaryDirectory() as folder:
                status, output = run(claim["shown"], binaries, folder)
            found = re.search(claim["prints"], output, re.MULTILINE)
            if not found and (status == 2 or "No module named" in output):
                claim["showed"] = "not on this machine"
            elif found:
                claim["showed"] = found[0]
            else:
                problem = problem or f"its output does not match '{claim['prints']}':\n{output}"
            failed += problem is not None
            print(("FAILED: " if problem else "ok: ") + claim["claim"] + (f"\n  {problem}" if problem else ""),
                  flush=True)
    lines = ["# The claims ledger", "",
             "Each entry has a claim, the command that shows it, what the command printed, and the test that",
             "holds the claim at other sizes and on other numbers of ranks. `docs/claims.py` writes this page from",
             "`docs/claims.txt`; `ctest --test-dir build -L claims` runs every command again.", ""]
    for title, claims in sections:
        lines += [f"## {title}", "", *map(entry, claims), ""]
    lines += faults_section(log=None)
    if failed:
        sys.exit(f"{failed} claims were not confirmed")
    if options.check:
        kept = LEDGER.read_text(encoding="utf-8").splitlines() if LEDGER.exists() else []
        if without_numbers(kept) != without_numbers(lines):
            sys.exit("error: docs/claims.md and docs/claims.txt list different claims; run docs/claims.py")
        return
    LEDGER.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
