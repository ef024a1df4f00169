"""The compiler, CMake and mpirun: whether the course can use them, and how to get others."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

from console import Failed
from machine import first_line, require_free_disk
from packages import as_root, install_line, succeeds
from place import STATE


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CXX") or "c++")


def output_of(
    words: list[str],
    given: str | None = None,
    folder: str | None = None,
    environment: dict[str, str] | None = None,
) -> tuple[int, str]:
    """The status, and both outputs of a command."""
    try:
        done = subprocess.run(
            words,
            input=given,
            stdin=None if given else subprocess.DEVNULL,
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            check=False,
        )
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        return 127, f"{words[0]}: {'command not found' if missing else error.strerror}"
    return done.returncode, done.stdout


def version_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def why_unusable(words: list[str]) -> tuple[str, str]:
    """Its version and file, and "" or why the course cannot use it."""
    file = shutil.which(words[0]) or words[0]
    status, said = output_of([*words, "--version"])
    if status != 0 or not said.strip():
        return "", f"{file}: {first_line(said)}"
    version, reason = first_line(said), ""
    name = pathlib.Path(words[0]).name
    if name == "cmake":
        if version_numbers(version.split()[-1]) < (3, 25):
            reason = f"{version} is older than 3.25"
    elif name == "mpirun":
        if not re.search("Open (MPI|RTE)", version):
            reason = f"is not Open MPI: {version}"
    else:
        flags = shlex.split(os.environ.get("CXXFLAGS", "")) + shlex.split(os.environ.get("LDFLAGS", ""))
        status, said = output_of([*words, *flags, "-x", "c++", "-o", "/dev/null", "-"], "int main() {}\n")
        if status != 0:
            reason = f"cannot compile an empty program: {first_line(said)}"
    return f"{version} ({os.path.realpath(file)})", f"{file}: {reason}" if reason else ""


def every(name: str) -> list[str]:
    """All programs of this name on the PATH."""
    folders = os.environ.get("PATH", "").split(":")
    return [path for folder in folders if os.access(path := f"{folder}/{name}", os.X_OK) and not os.path.isdir(path)]


def replacement(words: list[str]) -> str:
    """How to get one that the course can use."""
    for file in every(words[0]):  # the first one may hide another
        if not why_unusable([file, *words[1:]])[1]:
            return f"export PATH={os.path.dirname(file)}:$PATH"
    if words[0] == "cmake":
        # Into a folder of its own, pip installs everywhere: also in a virtual environment, and where the
        # system manages Python's packages. The folder on the PATH has nothing but CMake's programs.
        pip = "" if succeeds("python3", "-m", "pip", "--version") else f"{install_line('python3-pip')} && "
        return (
            f"{pip}python3 -m pip install --upgrade --target ~/.local/cmake 'cmake>=3.25' && "
            "export PATH=~/.local/cmake/cmake/data/bin:$PATH"
        )
    if words[0] == "mpirun":
        if not os.environ.get("HOME"):
            return "export HOME=~"
        if os.access("/usr/bin/mpirun.openmpi", os.X_OK):
            return as_root("update-alternatives --set mpirun /usr/bin/mpirun.openmpi")
        return install_line("--reinstall", "openmpi-bin")
    theirs = [name for name in ("CXX", "CXXFLAGS", "LDFLAGS") if os.environ.get(name)]
    if theirs:
        return "unset " + " ".join(["CXX", "CXXFLAGS"] + ["LDFLAGS"] * ("LDFLAGS" in theirs))
    return install_line("--reinstall", "g++")


def require_usable() -> None:
    for words in (compiler(), ["cmake"]):
        _, problem = why_unusable(words)
        if problem:
            require_free_disk(STATE, tempfile.gettempdir())
            raise Failed(f"{problem}; type this: {replacement(words)}")
    # FindMPI would swallow what mpicxx says.
    if shutil.which("mpicxx"):
        status, said = output_of(["mpicxx", "--showme:version"])
        if status != 0 and os.environ.get("OMPI_CXX") is None:
            raise Failed(f"{shutil.which('mpicxx')}: {first_line(said)}; type this: {replacement(['mpirun'])}")
