"""The packages that the course needs (packages.txt): which are missing, and how this user installs them."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from console import Failed, err, is_terminal, say, write
from machine import input_of
from place import ROOT, STATE

asks = True  # before it installs; ./learn --yes does not


class Package(NamedTuple):
    level: int
    name: str  # Debian's
    what: str  # the command or header that it provides, since it may have been installed another way


def conda() -> pathlib.Path | None:
    """The folder of an active conda environment that has an MPI."""
    prefix = os.environ.get("CONDA_PREFIX")
    return pathlib.Path(prefix) if prefix and os.access(f"{prefix}/bin/mpicxx", os.X_OK) else None


def prefixes() -> list[str]:
    """Folders in which libraries may be, too: conda's, and those that modules set on clusters."""
    listed = os.environ.get("CMAKE_PREFIX_PATH", "").split(":")
    return [each for each in ([str(conda())] if conda() else []) + listed if each]


def packages(level: int) -> list[Package]:
    """Those up to a level."""
    rows = [line.split() for line in (ROOT / "tools/learn/packages.txt").read_text().splitlines() if line[:1].isdigit()]
    return [Package(int(row[0]), row[1], row[2] if len(row) > 2 else row[1]) for row in rows if int(row[0]) <= level]


def succeeds(*words: str, given: str = "") -> bool:
    try:
        with input_of(given) as file:
            return not subprocess.run(
                words, stdin=file, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
            ).returncode
    except OSError:
        return False


def is_installed(name: str) -> bool:
    try:
        said = subprocess.run(
            ["dpkg-query", "-W", "-f=${Status}", name],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        ).stdout
    except OSError:
        return False
    return "install ok installed" in said


def is_there(package: Package) -> bool:
    what = package.what
    if not conda() and is_installed(package.name):  # conda's compiler does not see Debian's packages
        return True
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    if what.endswith((".h", ".hpp")):
        folders = [f"-I{prefix}/include" for prefix in prefixes()]
        return succeeds(*compiler, *folders, "-x", "c++", "-std=c++20", "-E", "-", given=f"#include <{what}>\n")
    if what == "catch2":
        return any(os.path.isdir(f"{prefix}/include/catch2") for prefix in ["/usr", "/usr/local", *prefixes()])
    if what == "tomllib":
        try:
            __import__("tomllib")
        except ImportError:
            return succeeds("python3", "-c", "import tomli")
        return True
    return shutil.which(compiler[0] if what == "c++" else what) is not None


def missing(level: int) -> list[str]:
    return [package.name for package in packages(level) if not is_there(package)]


def can_install() -> bool:
    """Whether this user can install packages with apt-get, perhaps after typing a password."""
    if conda() or not shutil.which("apt-get"):
        return False
    return os.getuid() == 0 or bool(shutil.which("sudo")) and (is_terminal(0) or succeeds("sudo", "-n", "true"))


def as_root(words: str) -> str:
    """How this user runs a command as root."""
    if os.getuid() == 0:
        return words
    return f"sudo sh -c '{words}'" if shutil.which("sudo") else f"su - -c '{words}'"


def install_line(*names: str) -> str:
    """The command with which this user can install packages."""
    tool = next(filter(shutil.which, ("micromamba", "mamba", "conda")), "")
    file = shlex.quote(str(ROOT / "environment.yml"))
    if conda():
        return f"{tool} env update --prefix {conda()} --file {file}"
    if can_install() or not tool and shutil.which("apt-get"):
        return as_root(f"apt-get update && apt-get install -y {' '.join(names)}")
    tool = tool or "conda"
    return f"{tool} env create --file {file} && {tool} activate mpi-to-ddp"


def cannot_install(names: list[str]) -> Failed:
    return Failed(f"""missing (names in Debian 12 and 13 and in Ubuntu 24.04): {" ".join(names)}
Type this:  {install_line(*names)}
Or ask an administrator to install them. On a cluster, load modules that provide them
(docs/running.md, section "Without root").""")


# Without these the course goes on: matrix products are then slower, there are no tests, or the tests fail
# that need pytest.
OPTIONAL = {"libdnnl-dev", "libopenblas-dev", "catch2", "python3-pytest", "python3-tomli"}


def set_up(level: int) -> None:
    """Installs what is missing, or says how."""
    if names := missing(level):
        install(names, may_go_on=OPTIONAL.issuperset(names))


def install(names: list[str], may_go_on: bool = False) -> None:
    say(f"missing packages: {' '.join(names)}")
    if not can_install():
        if may_go_on:
            return
        raise cannot_install(names)
    if os.getuid() != 0 and is_terminal(0) and asks:
        write(2, "install them with sudo apt-get? [Y/n] ")
        answer = sys.stdin.readline()
        if answer.strip()[:1] not in ("", "y", "Y") or not answer:  # not answer: Ctrl-D
            raise cannot_install(names)
    log = STATE / "apt.log"
    say(f"installing them with apt-get (log: {log})")
    STATE.mkdir(parents=True, exist_ok=True)
    apt = [
        *([] if os.getuid() == 0 else ["sudo"]),
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "-o",
        "DPkg::Lock::Timeout=300",
    ]
    with open(log, "w") as file:

        def run(*words: str) -> bool:
            return (
                subprocess.run(
                    [*apt, *words], stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
                ).returncode
                == 0
            )

        done = updated(lambda: run("update"), log) and run("install", "-y", "--no-install-recommends", *names)
    if not done:
        said = log.read_text(errors="replace").splitlines()
        err("\n".join(said[-5:]))
        offline = any(re.search("Temporary failure resolving|Could not (resolve|connect)", line) for line in said)
        raise Failed(
            f"apt-get could not install: {' '.join(names)}"
            + ("; without a network, see docs/running.md, Without root" if offline else "")
        )


def updated(update: Callable[[], bool], log: pathlib.Path) -> bool:
    """apt-get update, once another one has ended: it waits for dpkg's lock, but not for this one. In the
    end, packages are installed with the lists that are there."""
    end = time.monotonic() + float(os.environ.get("LEARN_LOCK_SECONDS", "300"))
    while not update():
        if "Could not get lock /var/lib/apt/lists" not in log.read_text(errors="replace")[-2000:]:
            return False
        if time.monotonic() > end:
            break
        time.sleep(2)
    return True
