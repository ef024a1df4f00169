#!/usr/bin/env python3
"""Runs a command and records how much memory it uses over time, in a file in FOLDER.

  mpirun -np 2 python3 bench/memory_samples.py FOLDER build/bin/ddp_training --dataset synthetic

It counts the proportional set size: a page that several ranks share (buckets, libraries) is
divided among them, so the ranks' numbers always add up to what the host provides. The command's
standard output is discarded.
"""
import json
import pathlib
import re
import subprocess
import sys
import time


def proportional_kib(pid):
    try:
        text = open(f"/proc/{pid}/smaps_rollup", encoding="utf-8").read()
    except OSError:
        return 0  # the process has ended or not yet begun
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) if found else 0


def peak_per_rank_mib(folder):
    """The most memory that all ranks used at one time, divided by their number."""
    files = [json.loads(path.read_text()) for path in pathlib.Path(folder).glob("*.json")]
    samples = sorted((when, rank, kib) for rank, file in enumerate(files) for when, kib in file)
    now, peak = [0] * len(files), 0
    for _, rank, kib in samples:
        now[rank] = kib
        peak = max(peak, sum(now))
    return peak / 1024 / max(1, len(files))


def main():
    folder, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    samples = []
    while process.poll() is None:
        samples.append((time.monotonic(), proportional_kib(process.pid)))
        time.sleep(0.005)
    samples.append((time.monotonic(), 0))
    (folder / f"{process.pid}.json").write_text(json.dumps(samples), encoding="utf-8")
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
