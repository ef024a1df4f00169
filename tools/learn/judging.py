"""Judging the reader's solutions: which exercises there are, building one, and running its checks."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

from build_folder import Build, CannotBuild
from console import Ended, Failed, err, is_terminal, say, width
from packages import install
from place import BUILD, EMULATED_BUILD, ROOT, STATE, mpi_environment, short
from progress import Progress

sys.path.insert(0, str(ROOT / "tools/exercises"))
try:
    import exercises
    from compile_errors import in_words
    from source_text import code_of

    CAN_READ_TABLES = True
except (SystemExit, ImportError):  # this Python is older than 3.11 and has no tomli
    CAN_READ_TABLES = False

DONE, WRONG, NOT_STARTED, NOT_JUDGED = 0, 1, 3, 4


@functools.cache
def every_exercise() -> list[exercises.Exercise]:
    """In the order of the lessons. Empty if they cannot be read."""
    if not CAN_READ_TABLES:
        return []
    return [each for folder in exercises.LESSONS for each in exercises.exercises_of(folder)]


def need_exercises(command: str) -> None:
    """Installs what reading their tables needs, and then starts ./learn again."""
    if CAN_READ_TABLES:
        return
    if os.environ.get("LEARN_STARTED_AGAIN"):
        raise Failed(f"{command}: this Python is older than 3.11 and does not find tomli (Debian: python3-tomli)")
    install(["python3-tomli"])
    os.environ["LEARN_STARTED_AGAIN"] = "1"
    os.execv(sys.executable, [sys.executable, str(ROOT / "tools/learn"), *sys.argv[1:]])


def key(exercise: exercises.Exercise) -> str:
    """Its name in the progress."""
    return f"{exercise.folder[:2]}/{exercise.name}"


def parts_that_are_yours(progress: Progress) -> str:
    parts = [each for each in every_exercise() if each.part]
    mine = sum(key(each) in progress.done and exercises.state(each)[0] != NOT_STARTED for each in parts)
    return f"{mine} of {len(parts)} parts of the trainer are yours (./learn mine)"


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """While a reader's code is built: in English, and what is said is shown only if the build fails."""
    before, os.environ["LC_ALL"] = os.environ.get("LC_ALL"), "C"
    lines, say.kept = say.kept, []
    try:
        yield
    except Failed as error:
        error.before = "\n".join([*say.kept, error.before])
        raise
    finally:
        say.kept = lines
        os.environ.pop("LC_ALL")
        if before is not None:
            os.environ["LC_ALL"] = before


class Judge:
    """Judges exercises, and announces once that building takes minutes."""

    def __init__(self, draws: bool = False, ranks: str = "") -> None:
        self.draws, self.ranks, self.announced = draws, ranks, set[str]()

    def __call__(self, exercise: exercises.Exercise) -> tuple[int, str]:
        """The verdict: DONE, WRONG, NOT_STARTED or NOT_JUDGED, and the answer."""
        if not exercise.file.is_file():
            raise Failed(f"{exercise.file} is missing")
        status, answer = exercises.state(exercise)
        if status != exercises.TO_BE_JUDGED:
            return status, answer
        target = f"exercise_{exercise.folder[:2]}_{exercise.name}"
        build = Build(EMULATED_BUILD, "emulated") if exercise.kind == "nccl" else Build(BUILD)
        log = STATE / "build.log"
        if target not in self.announced and (is_terminal(2) or not os.access(build.folder / "bin" / target, os.X_OK)):
            err(f"building {target} (the first time may take minutes)")
        self.announced.add(target)
        if said := self.built(build, exercise, target, log):
            return WRONG, said
        # The compiler's warnings are in the log only if the file was compiled this time.
        if log.is_file() and b"_adapter.cpp.o" in log.read_bytes():
            shutil.copyfile(log, STATE / f"{target}.log")
        return self.judged(exercise, build, target)

    def built(self, build: Build, exercise: exercises.Exercise, target: str, log: pathlib.Path) -> str:
        """Builds, and returns the first of the compiler's errors in words, or ""."""
        try:
            with quietly():
                build.targets(exercise.lesson, target)
        except CannotBuild as error:
            text = "\n".join(in_words(log.read_text(errors="replace"), exercise.name, exercise.function))
            if not text:
                raise Failed(error.text, before=error.before) from None
            return f"{text}\n(all of the compiler's words are in {short(log)})"
        return ""

    def waits_for(self, exercise: exercises.Exercise) -> str:
        """What to say of an exercise that is written, and calls one that is not."""
        code = code_of(exercise.file.read_text(errors="replace"))
        for other in every_exercise():
            calls = re.search(rf"\b{other.name}\b", code)
            if calls and other.name != exercise.name and exercises.state(other)[0] == NOT_STARTED:
                return f"waits for {other.name}, which it calls: ./learn check {other.lesson} {other.name}"
        return "waits for a function that it calls, and that is not written yet"

    def judged(self, exercise: exercises.Exercise, build: Build, target: str) -> tuple[int, str]:
        environment = {
            **mpi_environment(),
            "EXERCISE_LOG": str(STATE / "check.log"),
            "EXERCISE_INDENT": "33",
            "EXERCISE_SOURCE": str(exercise.file),
            "EXERCISE_WARNINGS": str(STATE / f"{target}.log"),
            "EXERCISE_WIDTH": str(width() or ""),
            "EXERCISE_DRAWING": "",
        }
        if self.ranks:
            environment["EXERCISE_RANKS"] = self.ranks
        if self.draws:
            page = STATE / f"{target}.html"
            page.unlink(missing_ok=True)
            environment["EXERCISE_DRAWING"] = str(page)
        words = [str(ROOT / "tools/exercises/judge.py"), str(build.folder / "bin" / target)]
        job = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True, errors="replace")
        try:
            said, _ = job.communicate()
        except KeyboardInterrupt:
            job.wait()
            raise
        if job.returncode == NOT_STARTED:
            said = self.waits_for(exercise)
        if job.returncode == NOT_JUDGED:
            said = f"{said.rstrip()}\nfrom this run, nobody can tell whether it is right; check it again"
        if job.returncode not in (DONE, WRONG, NOT_STARTED, NOT_JUDGED):
            raise Ended(job.returncode if job.returncode > 0 else 128 - job.returncode)
        return job.returncode, said.rstrip("\n")
