#!/usr/bin/env python3
"""skips.py BUILD: what the last ctest in this build folder skipped, and why.

Fails if skips.txt does not list a reason, or lists it for systems unlike this one: a proof that does
not run where it could proves nothing.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys

LIST = pathlib.Path(__file__).with_name("skips.txt")
# What is printed by pytest -rs; by skip() of mpi_test.hpp; and by a whole program that does not run here.
REASON = re.compile(r"^(?:SKIPPED \[\d+\] \S+?:\d+: |(?:\[rank 0\])?\s*SKIP: |skipped: )(.*)$", re.M)


def succeeds(*words: str) -> bool:
    return subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


def conditions(build: pathlib.Path) -> dict[str, bool]:
    """What may be true of a system, as skips.txt names it."""
    cache = (build / "CMakeCache.txt").read_text()
    emulated = "DIST_CUDA:STRING=EMULATED" in cache
    return {
        "always": True,
        "no-gpu": not emulated and not pathlib.Path("/dev/nvidiactl").exists(),
        "emulated": emulated,
        "not-emulated": not emulated,
        "sanitized": bool(re.search(r"^DIST_SANITIZE:STRING=.", cache, re.M)),
        "no-bf16": not re.search(r"\bamx_bf16\b|\bavx512_bf16\b", pathlib.Path("/proc/cpuinfo").read_text()),
        "not-root": os.getuid() != 0,
        "no-mounts": not succeeds("unshare", "-m", "true"),
        "old-pytorch": not succeeds(
            os.environ.get("PYTHON", "python3"),
            "-c",
            "import numpy, safetensors, torch; torch.distributed.all_gather_single",
        ),
    }


def main() -> None:
    if len(sys.argv) != 2 or not (pathlib.Path(sys.argv[1]) / "Testing/Temporary/LastTest.log").exists():
        sys.exit("usage: skips.py BUILD, a build folder in which ctest has run")
    build = pathlib.Path(sys.argv[1])
    holds, allowed = conditions(build), []
    for line in LIST.read_text().splitlines():
        condition, _, reason = line.partition(" ")
        if reason and not line.startswith("#") and holds[condition]:
            allowed.append(reason.partition("  # ")[0].strip())
    log = (build / "Testing/Temporary/LastTest.log").read_text(errors="replace")
    found = collections.Counter(REASON.findall(log))
    unknown = [reason for reason in found if not any(re.search(each, reason) for each in allowed)]
    for reason, count in sorted(found.items()):
        print(f"{count:4} x {reason}{'  <- unexpected here' if reason in unknown else ''}")
    if unknown:
        sys.exit(f"{len(unknown)} of these skips are not in {LIST.name} for a system like this one")


if __name__ == "__main__":
    main()
