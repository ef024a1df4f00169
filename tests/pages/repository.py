"""The files of the repository, as git lists them, and what they include."""

from __future__ import annotations

import pathlib
import re
import subprocess

from programs import ROOT

LESSONS = ["01_send_recv", "02_broadcast", "03_all_reduce", "04_distributed_sampler", "05_ddp_training"]
PROGRAMS = ["send_recv", "broadcast", "all_reduce", "distributed_sampler", "ddp_training"]
SOURCE = (".hpp", ".cpp", ".h", ".cu", ".cuh")

# Lesson 5 in layers: each folder includes only those before it, and the programs on top all.
LAYERS = [
    "model",
    "optimizer",
    "process_group",
    "data_parallel",
    "sharding",
    "deterministic",
    "checkpoint",
    "explain",
    "trainer",
]


def output_of(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def tracked_files() -> list[str]:
    """The files that git tracks or, in a copy without git, all files that are not build outputs."""
    if (ROOT / ".git").exists():
        listed = output_of("git", "-c", f"safe.directory={ROOT}", "ls-files", "-z").split("\0")
        return [name for name in listed if name and (ROOT / name).is_file()]
    names = (str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file())
    return [name for name in names if not re.match(r"build|\.learn/|.*__pycache__/", name)]


FILES = tracked_files()
CODE = [name for name in FILES if name.endswith(SOURCE)]
# The pages that readers see, except tables of measurements and hints.
PAGES = [
    name
    for name in FILES
    if name.endswith(".md") and not re.match(r"bench/results/|docs/release_notes|.*/exercise", name)
]


def text(name: str | pathlib.Path) -> str:
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


def project_includes(name: str) -> list[str]:
    return re.findall(r'^#include "([^"]+)"', text(name), flags=re.M)


def further_of(lesson: str) -> str:
    """The lesson's second page, for what only some readers want."""
    return f"{lesson}/further.md" if lesson != LESSONS[4] else f"{lesson}/advanced/further.md"


def experiments_of(lesson: str) -> list[str]:
    listed = text(f"{lesson}/break_it/experiments.cpp")
    return re.findall(r'^ +(?:Experiment)?\{"([a-z0-9-]+)"', listed, re.M)


def is_workshop(name: str) -> bool:
    """What a reader does, not what a reader reads."""
    return "/exercise/" in name or "/break_it/" in name


def layer(name: str) -> int | None:
    """The place of the folder of lesson 5 that `name` is in, or None."""
    lesson, _, rest = name.partition("/")
    folder = pathlib.PurePath(rest).parts[:1]
    return LAYERS.index(folder[0]) if lesson == LESSONS[4] and folder[0] in LAYERS else None
