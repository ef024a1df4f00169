#!/usr/bin/env python3
"""Runs a command and prints the most memory that it held at a time, as one JSON row.

  mpirun -np 2 python3 bench/peak_memory.py build/bin/ddp_training --dataset synthetic

Counted is the proportional set size: a page that several ranks share (buckets, libraries) counts
for each of them by its part, so that the ranks' numbers add up to what the host needs. What the
command prints on standard output is dropped.
"""
import json
import re
import subprocess
import sys
import time


def proportional_kib(pid):
    try:
        text = open(f"/proc/{pid}/smaps_rollup", encoding="utf-8").read()
    except OSError:
        return 0  # it has ended, or has not begun
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) if found else 0


def main():
    process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, proportional_kib(process.pid))
        time.sleep(0.005)
    print(json.dumps({"peak_mib": peak / 1024}), flush=True)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
