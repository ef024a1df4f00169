"""./learn on machines that are not here. A copy of the course is as in a fresh clone, and nothing is compiled in
it: a fake cmake says whether it would have succeeded, and known solutions replace the reader's."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

from programs import BUILD, MPI_ENVIRONMENT, ROOT, Environment

LEARN: Environment = {"LEARN_BUILD_DIR": str(BUILD)}  # for ./learn with the build that is tested

FIRST, SECOND = "ring_reduce_scatter", "ring_all_reduce"  # lesson 3's exercises in the copy

PARTS = {
    "01_send_recv": ["exchange", "ring_shift"],
    "02_broadcast": ["tree_broadcast"],
    "03_all_reduce": [FIRST, SECOND],
    "04_distributed_sampler": ["my_indices"],
    "05_ddp_training": ["sync_gradients"],
}


class Course:
    """A copy of the course as in a fresh clone, whatever the reader has written."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        for name in ("learn", "tools/printable.py", "tools/learn", "tools/exercises", *PARTS):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name)
            else:
                shutil.copy(ROOT / name, folder / name)
        for lesson, parts in PARTS.items():
            for part in parts:
                self.write(f"{lesson}/exercise/{part}.hpp", "  not_started();  // replace this\n")
        toml = "tools/exercises/03_all_reduce/exercises.toml"
        tables = re.split(r"^(?=\[)", (folder / toml).read_text(), flags=re.M)
        self.write(toml, "".join(table for table in tables if table.startswith((f"[{FIRST}]", f"[{SECOND}]"))))
        self.write("build/build.ninja", "")
        self.cache(folder)
        self.cmake("exit 0")
        self.program("build/bin/send_recv", "echo it runs")
        self.environment = {**MPI_ENVIRONMENT, **os.environ, "PATH": f"{folder}/path:{os.environ['PATH']}"}
        self.environment.pop("LEARN_BUILD_DIR", None)

    def write(self, name: str, text: str) -> pathlib.Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def program(self, name: str, script: str) -> None:
        self.write(name, f"#!/bin/sh\n{script}\n").chmod(0o755)

    def cmake(self, script: str) -> None:
        self.program("path/cmake", f'[ "$1" != --version ] || exec {shutil.which("cmake")} "$1"\n{script}')

    def cache(self, checkout: str | pathlib.Path, generator: str = "Ninja", folder: str = "") -> None:
        """The cache of a build that was configured for `checkout`, in `folder` (its own)."""
        self.write(
            "build/CMakeCache.txt",
            "DIST_LESSON:STRING=5\nDIST_TESTS:BOOL=ON\n"
            f"CMAKE_GENERATOR:INTERNAL={generator}\n"
            f"CMAKE_HOME_DIRECTORY:INTERNAL={checkout}\n"
            f"CMAKE_CACHEFILE_DIR:INTERNAL={folder or f'{checkout}/build'}\n",
        )

    def solve(self, exercise: str, solution: str) -> None:
        """Pretends that the reader has written this solution."""
        self.write(f"03_all_reduce/exercise/{exercise}.hpp", "  // solved\n")
        self.program(
            f"build/bin/exercise_03_{exercise}",
            f'exec {BUILD}/tests/solutions_03 --solution {exercise}/{solution} "$@"',
        )

    def start(self, words: str, learn: str = "./learn") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [learn, *words.split()],
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def learn(self, words: str, status: int, *patterns: str, **options: str) -> str:
        """Checks the exit status, and that a line matches each pattern."""
        job = self.start(words, **options)
        said, _ = job.communicate(timeout=120)
        assert job.returncode == status, said
        for pattern in patterns:
            assert re.search(pattern, said, re.M), f"no line matches {pattern}\n{said}"
        return said


def with_cards(folder: pathlib.Path, *cards: str) -> str:
    """A PATH on which nvidia-smi lists GPUs with these compute capabilities."""
    tool = folder / "bin/nvidia-smi"
    tool.parent.mkdir()
    lines = [f"echo {card}" if card else "true" for card in cards]
    names = [f"echo 'GPU {i}: a card'" for i in range(len(cards))]
    tool.write_text("\n".join(["#!/bin/sh", 'if [ "$1" = -L ]; then', *names, "else", *lines, "fi"]))
    tool.chmod(0o755)
    return f"{tool.parent}:{os.environ['PATH']}"
