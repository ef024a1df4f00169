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
from machine import first_line, input_of, require_free_disk
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
        with input_of(given or "") as file:
            done = subprocess.run(
                words,
                stdin=file,
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


def mpi_of(program: str, version: str) -> str:
    """Which MPI mpicxx or mpirun belongs to, or what it says instead. Wrappers have no flag in common that names
    their MPI, but the header that they find does."""
    marks = {"Open MPI": "Open ?(MPI|RTE)", "Intel MPI": "Intel", "MPICH": "HYDRA"}
    if pathlib.Path(program).name == "mpicxx":
        marks = {"Open MPI": "define OPEN_MPI ", "Intel MPI": "define I_MPI_VERSION ", "MPICH": "define MPICH_VERSION "}
        status, version = output_of([program, "-x", "c++", "-E", "-dM", "-"], "#include <mpi.h>\n")
        if status != 0:
            return first_line(version)
    return next((mpi for mpi, mark in marks.items() if re.search(mark, version)), first_line(version))


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
    elif name in ("mpirun", "mpicxx"):
        if (mpi := mpi_of(words[0], version)) != "Open MPI":
            whose = f"but {mpi}'s" if mpi in ("MPICH", "Intel MPI") else f"it says: {mpi}"
            reason = f"is not Open MPI's, {whose}"
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
    if words[0] == "mpicxx":
        if os.access("/usr/bin/mpicc.openmpi", os.X_OK):  # Debian's name for all of an MPI's compilers
            return as_root("update-alternatives --set mpi /usr/bin/mpicc.openmpi")
        return install_line("--reinstall", "libopenmpi-dev")
    theirs = [name for name in ("CXX", "CXXFLAGS", "LDFLAGS") if os.environ.get(name)]
    if theirs:
        return "unset " + " ".join(["CXX", "CXXFLAGS"] + ["LDFLAGS"] * ("LDFLAGS" in theirs))
    return install_line("--reinstall", "g++")


def require_usable() -> None:
    # FindMPI would swallow what mpicxx says. It may be another compiler's (OMPI_CXX).
    mpi = [[name] for name in ("mpicxx", "mpirun") if shutil.which(name) and not os.environ.get("OMPI_CXX")]
    for words in (compiler(), ["cmake"], *mpi):
        _, problem = why_unusable(words)
        if problem:
            require_free_disk(STATE, tempfile.gettempdir())
            raise Failed(f"{problem}; type this: {replacement(words)}")
