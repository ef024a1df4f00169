#!/usr/bin/env python3
"""./learn bench: our code beside what a reader would use instead, and beside the machine's limits.

  bench.py [--bin FOLDER] [--quick] [WORD] [FLAGS]    measure, and write WORD.md to bench/results
  bench.py --targets [--quick] [WORD] [FLAGS]         check the flags, and print what must be built

Without WORD: all-reduce, then training. --quick measures only the essential rows, and writes to
build/bench. Add --help to see the flags of a word. The words:

"""
import pathlib
import sys

from all_reduce import AllReduce
from gpu import Gpu
from harness import HERE
from sweeps import Batch, Buckets
from training import Training
from two_hosts import Hosts, Overlap

WORDS = {"all-reduce": AllReduce, "training": Training, "buckets": Buckets, "batch": Batch,
         "overlap": Overlap, "hosts": Hosts, "gpu": Gpu}


def main():
    words = sys.argv[1:]
    binaries = HERE.parent / "build" / "bin"
    if words[:1] == ["--bin"]:
        binaries, words = pathlib.Path(words[1]), words[2:]
    flags, extra = words, []
    if "--" in words:
        flags, extra = words[:words.index("--")], words[words.index("--"):]
    targets, quick = ("--targets" in flags), ("--quick" in flags)
    flags = [flag for flag in flags if flag not in ("--targets", "--quick")]
    names = ["all-reduce", "training"]
    if flags and not flags[0].startswith("-"):
        names, flags = flags[:1], flags[1:]
        if names[0] not in WORDS:
            print(f"error: bench: '{names[0]}' is not one of: {' '.join(WORDS)}", file=sys.stderr)
            sys.exit(2)
    elif "--help" in flags or "-h" in flags:
        print(__doc__.strip() + "\n")
        for name, word in WORDS.items():
            print(f"  {name:<12}{word.__doc__.splitlines()[0]}")
        return

    jobs = []
    for name in names:
        word = WORDS[name]
        options = word.parser(name).parse_args(word.quick.split() * quick + flags + extra)
        options.bin = binaries
        folder = binaries.parent / "bench" if quick else HERE / "results"
        options.output = options.output or folder
        jobs.append((name, options))
    for name, options in jobs:
        if targets:
            print(WORDS[name].targets)
        else:
            WORDS[name](options).write(name)


if __name__ == "__main__":
    main()
