"""The build folder: whether it can be used, configuring, and building, by one ./learn at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO

import tools_used
from console import Failed, err, is_terminal, say, write
from machine import need_folder, new_file, require_free_disk, require_large_files, require_programs_run
from packages import set_up
from place import PRESET, ROOT, STATE, TESTS, short


class CannotBuild(Failed):
    """A step of the build failed; the compiler's words are in the log."""


class Build:
    """A build folder and the preset that configures it."""

    def __init__(self, folder: pathlib.Path, preset: str = PRESET) -> None:
        self.folder, self.preset = folder, preset

    def cached(self, entry: str) -> str:
        """An entry NAME:TYPE of CMake's cache; "" if there is none."""
        try:
            cache = (self.folder / "CMakeCache.txt").read_text(errors="replace")
        except OSError:
            return ""
        found = re.search(rf"^{re.escape(entry)}=(.*)$", cache, re.M)
        return found[1] if found else ""

    def why_foreign(self) -> str:
        """Why the folder, which may be anything in LEARN_BUILD_DIR, is not ours to build in."""
        project = self.cached("CMAKE_PROJECT_NAME:STATIC")
        if f"{ROOT}/".startswith(f"{str(self.folder).rstrip('/')}/"):
            return "it contains the course"
        if project not in ("", "mpi_to_ddp"):
            return f"it is a build of {project}"
        try:
            names = {path.name for path in self.folder.iterdir()}
        except OSError:
            return ""
        return "it has files, but none of CMake's" if names and not names & {"CMakeCache.txt", "CMakeFiles"} else ""

    def why_stale(self) -> str:
        """Why it must be configured anew; "" if it can be used as it is. A copied or moved folder still
        refers to the old one's sources."""
        if not (self.folder / "CMakeCache.txt").is_file():
            return ""
        source, folder = self.cached("CMAKE_HOME_DIRECTORY:INTERNAL"), self.cached("CMAKE_CACHEFILE_DIR:INTERNAL")
        if not source or not folder:
            return "its CMakeCache.txt is damaged"
        if not same_file(source, ROOT):
            return f"it belongs to the checkout {source}"
        if not same_file(folder, self.folder):
            return f"it is a copy of {folder}"
        return "" if self.cached("CMAKE_GENERATOR:INTERNAL") == "Ninja" else "it is not for Ninja"

    def level(self) -> int:
        """What it is configured for; 0 if it is not."""
        lesson = self.cached("DIST_LESSON:STRING") if (self.folder / "build.ninja").is_file() else ""
        if lesson == "5" and self.cached("DIST_TESTS:BOOL") == "ON":
            return TESTS
        return int(lesson) if re.fullmatch("[1-6]", lesson) else 0

    def configure(self, level: int, *flags: str) -> None:
        say("configuring")
        tools_used.require_usable()
        log = STATE / "configure.log"
        words = [
            "cmake",
            *flags,
            "-S",
            str(ROOT),
            "-B",
            str(self.folder),
            "--preset",
            self.preset,
            f"-DDIST_LESSON={min(level, 5)}",
            f"-DDIST_TESTS={'ON' if level == TESTS else 'OFF'}",
        ]
        with new_file(log) as file:
            status = finished(words, file)
        said = log.read_text(errors="replace")
        if status == 0:
            for line in re.findall("^-- CUDA:.*", said, re.M):
                say(line)
            return
        (self.folder / "CMakeCache.txt").unlink(missing_ok=True)
        require_free_disk(self.folder, STATE, tempfile.gettempdir())
        raise Failed(f"cmake cannot configure the build (log: {log}): {reason_in(said)}")

    def targets(self, level: int, *targets: str) -> None:
        """Builds them, or everything if none is given, and before that sets up what is missing."""
        if foreign := self.why_foreign():
            raise Failed(
                f"{self.folder} is not a build folder of this course: {foreign}; set LEARN_BUILD_DIR to another one"
            )
        if re.search(r"""['"\\;&*\n]""", f"{ROOT}{self.folder}"):  # Ninja or CMake misreads these
            raise Failed(
                f"the path {ROOT} has one of the characters ' \" \\ ; & *; move the course to a folder without them"
            )
        require_programs_run(self.folder)
        require_large_files()
        set_up(level)
        need_folder(STATE, self.folder)
        what = " ".join(targets) or "everything"
        with locked(what):
            stale, configured = self.why_stale(), self.level()
            if stale:
                say(f"{short(self.folder)} must be configured anew: {stale}")
                self.configure(level, "--fresh")
            elif configured < level:
                self.configure(level)
            programs = [self.folder / "bin" / each for each in targets if not each.endswith("_tests")]
            new = not (self.folder / ".ninja_log").exists() or not all(os.access(each, os.X_OK) for each in programs)
            say(f"building {what}" + (" (the first time may take minutes)" if new else ""))
            self.step("cmake", "--build", str(self.folder), *(["--target", *targets] if targets else []))

    def step(self, *words: str) -> None:
        """Shows all of the output on a terminal, but only errors elsewhere."""
        if say.kept is None and say.descriptor == 1 and is_terminal(1):
            status, tail = finished(words), ""
        else:
            log = STATE / "build.log"
            with new_file(log) as file:
                status = finished(words, file)
            tail = "".join(log.read_text(errors="replace").splitlines(keepends=True)[-40:])
        if status != 0:
            require_free_disk(self.folder, STATE, tempfile.gettempdir())
            raise CannotBuild(f"command failed: {' '.join(words)}", status=1, before=tail)


def finished(words: Sequence[str], output: IO[bytes] | None = None) -> int:
    """Configures or builds, and returns the status. A process of ours waits beside us. It inherits the lock, and so
    keeps it if we are killed while compilers go on. (cmake itself must not: a compiler cache that it starts may live
    for hours.)"""
    waiting = os.fork()
    if waiting == 0:
        status = 1
        try:
            status = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
            ).returncode
        except KeyboardInterrupt:  # which the terminal also sends to cmake
            pass
        finally:
            os._exit(status if status >= 0 else 128 - status)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(waiting, 0)[1])
    except KeyboardInterrupt:
        os.waitpid(waiting, 0)
        raise


def same_file(one: str | pathlib.Path, other: str | pathlib.Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


# A program that is missing, and what a linker or compiler says: the reason of a failed try to compile.
CAUSE = re.compile(r"(\S+: (?:command )?not found|.*cannot find .*|.*(?:fatal )?error: .*)")
# Variables with which a reader can have changed how CMake compiles.
THEIRS = (
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    "CMAKE_C_COMPILER_LAUNCHER",
    "CMAKE_CXX_COMPILER_LAUNCHER",
    "CMAKE_TOOLCHAIN_FILE",
    "CMAKE_GENERATOR",
)


def reason_in(said: str) -> str:
    """Why CMake failed: its first error's text, which begins on its first line or below, or its last line."""
    lines = said.splitlines()
    begin = next((i for i, line in enumerate(lines) if re.match(r"CMake Error( (at|in) .*)?:", line)), None)
    if begin is None:
        text = next((line for line in reversed(lines) if line.strip()), "")
    else:
        first = re.sub(r"^CMake Error( (at|in) .*)?:", "", lines[begin])
        rest: list[str] = []
        for line in lines[begin + 1 :]:
            if re.match("(CMake |Call Stack|-- )", line):
                break
            rest.append(line)
        text = "\n".join([first, *rest])
        if "is not able to compile a simple test program" in text:
            causes = [each.strip() for each in CAUSE.findall(text) if "ninja:" not in each]
            text = "the compiler cannot compile an empty program: " + (causes[-1] if causes else text)
    text = " ".join(text.split())[:400]
    theirs = [name for name in THEIRS if os.environ.get(name)]
    return text + (f"; your environment sets {' and '.join(theirs)}" if theirs else "")


@contextlib.contextmanager
def locked(what: str) -> Iterator[None]:
    """Only one ./learn at a time configures and builds. A file system without locks builds without one."""
    need_folder(STATE)
    path = STATE / "lock"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        require_free_disk(STATE)
        raise Failed(f"{path} cannot be written; remove it") from None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                builder = os.read(file, 1000).decode(errors="replace").partition("\n")[0]
                err(f"waiting for another ./learn, which builds {builder}")
                fcntl.flock(file, fcntl.LOCK_EX)
        try:
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
            write(file, what + "\n")
        except OSError:
            require_free_disk(STATE)
        yield
    finally:
        os.close(file)
