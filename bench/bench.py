#!/usr/bin/env python3
"""./learn bench: our code beside what a reader would use instead, and beside the machine's limits.

  bench.py [--bin FOLDER] [--quick] [WORD] [FLAGS]    measure, and write WORD.md to bench/results
  bench.py --targets [--quick] [WORD] [FLAGS]         check the flags, and print what must be built

Without WORD: all-reduce, then training. --quick measures only the essential rows, and writes to
build/bench. Add --help to see the flags of a word. The words:

"""

import pathlib
import signal
import sys

from all_reduce import AllReduce
from gpt import GptStep
from gpu import Gpu
from harness import HERE
from matmul import Matmul
from training import Training
from two_hosts import Hosts, Overlap

WORDS = {
    "all-reduce": AllReduce,
    "training": Training,
    "overlap": Overlap,
    "hosts": Hosts,
    "matmul": Matmul,
    "gpt": GptStep,
    "gpu": Gpu,
}


def main() -> None:
    flags = sys.argv[1:]
    binaries = HERE.parent / "build" / "bin"
    if flags[:1] == ["--bin"]:
        binaries, flags = pathlib.Path(flags[1]), flags[2:]
    targets, quick = "--targets" in flags, "--quick" in flags
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
            summary = (word.__doc__ or "").partition("\n")[0]
            print(f"  {name:<12}{summary}")
        return
    jobs = {
        name: WORDS[name].parser(name).parse_args(WORDS[name].quick.split() * quick + flags) for name in names
    }  # all flags are checked first
    for name, options in jobs.items():
        if targets:
            print(WORDS[name].targets)
        else:
            options.bin = binaries
            options.output = options.output or (binaries.parent / "bench" if quick else HERE / "results")
            WORDS[name](options).write(name)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # what it has started ends, too
    try:
        main()
    except OSError as error:
        sys.exit(f"error: bench: {error.filename or 'a file'}: {error.strerror}")
