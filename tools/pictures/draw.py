#!/usr/bin/env python3
"""Draws the pictures of the READMEs, docs/pictures/*.svg, from runs of the course's programs.

draw.py                   draws the runs recorded in docs/pictures/runs; the same bytes each time
draw.py --record BUILD    first runs the programs of this build and records them
draw.py -o FOLDER         draws into another folder
draw.py NAME...           draws only these pictures

Each picture is a module: record(programs) returns the run to be kept, draw(run) returns the SVG.
"""
import argparse
import pathlib
import sys

import eager_rendezvous
import message_cost
import overlap
import ring
import runs
import sampler
import tree

PICTURES = {module.__name__: module
            for module in (ring, tree, eager_rendezvous, message_cost, sampler, overlap)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    parser.add_argument("--record", metavar="BUILD", help="folder of a build")
    parser.add_argument("-o", metavar="FOLDER", dest="folder", type=pathlib.Path,
                        default=runs.RUNS.parent)
    options = parser.parse_args()
    for name in options.names:
        if name not in PICTURES:
            parser.error(f"{name} is not one of {', '.join(PICTURES)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or PICTURES:
        if options.record:
            runs.save(name, PICTURES[name].record(runs.Programs(options.record)))
        svg = PICTURES[name].draw(runs.load(name))
        (options.folder / f"{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
