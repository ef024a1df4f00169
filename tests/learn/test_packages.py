"""Packages that are missing: who can install them, and the line to type for who cannot."""

import io
import os
import pathlib
import re
from collections.abc import Callable

import pytest
from course import Course

import other_words
import packages
from console import Failed
from place import ROOT

pytestmark = pytest.mark.quick
APT = "apt-get update && apt-get install -y a b"


@pytest.fixture
def only(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes these the only programs on the PATH."""

    def programs(*names: str) -> None:
        (tmp_path / "path").mkdir()
        for name in names:
            (tmp_path / "path" / name).write_text("#!/bin/sh\nexit 1\n")
            (tmp_path / "path" / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path / "path"))
        monkeypatch.delenv("CONDA_PREFIX", raising=False)
        monkeypatch.setattr(packages, "is_terminal", lambda _: False)

    return programs


@pytest.mark.parametrize(
    "user, programs, line, can",
    [
        (0, ["apt-get"], APT, True),
        (1000, ["apt-get", "sudo"], f"sudo sh -c '{APT}'", False),  # a sudo that asks for a password
        (1000, ["apt-get"], f"su - -c '{APT}'", False),
        (
            1000,
            ["apt-get", "sudo", "micromamba"],
            f"micromamba env create --file {ROOT}/environment.yml && micromamba activate mpi-to-ddp",
            False,
        ),
        (1000, [], f"conda env create --file {ROOT}/environment.yml && conda activate mpi-to-ddp", False),
    ],
)
def test_the_line_that_installs(
    user: int, programs: list[str], line: str, can: bool, only: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    only(*programs)
    monkeypatch.setattr(os, "getuid", lambda: user)
    assert packages.install_line("a", "b") == line and packages.can_install() == can


def test_in_a_conda_environment(
    only: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    only("apt-get", "micromamba")
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/bin/mpicxx").symlink_to("/bin/true")
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "env"))
    assert packages.install_line("a") == f"micromamba env update --prefix {tmp_path}/env --file {ROOT}/environment.yml"
    assert not packages.can_install()


def test_what_cannot_be_installed_is_named_unless_the_course_works_without(
    only: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    only("sudo")
    monkeypatch.setattr(packages, "say", lambda _: None)
    monkeypatch.setattr(packages, "missing", lambda _: ["catch2"])
    packages.set_up(6)
    monkeypatch.setattr(packages, "missing", lambda _: ["catch2", "cmake"])
    with pytest.raises(Failed, match=r"missing \(.*\): catch2 cmake\nType this: "):
        packages.set_up(6)


@pytest.mark.parametrize(
    "said, times, goes_on",
    [("E: Could not get lock /var/lib/apt/lists/lock.", 3, True), ("E: Unable to locate", 1, False)],
)
def test_an_apt_get_that_is_already_running_is_waited_for(
    said: str, times: int, goes_on: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    calls: list[int] = []

    def update() -> bool:
        calls.append(1)
        log.write_text(said if len(calls) < 3 else "")
        return len(calls) == 3

    monkeypatch.setattr(packages.time, "sleep", lambda _: None)
    assert packages.updated(update, log) == goes_on and len(calls) == times


@pytest.mark.parametrize(
    "typed, asks, installs",
    [
        ("y\n", True, True),
        ("\n", True, True),
        ("n\n", True, False),
        ("", True, False),  # Ctrl-D
        ("n\n", False, True),  # ./learn --yes
    ],
)
def test_on_a_terminal_a_user_with_sudo_is_asked(
    typed: str,
    asks: bool,
    installs: bool,
    only: Callable[..., None],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    only("apt-get", "sudo")  # which fail
    monkeypatch.setattr(packages, "is_terminal", lambda _: True)
    monkeypatch.setattr(packages, "asks", asks)
    monkeypatch.setattr(packages, "STATE", tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    with pytest.raises(Failed, match="^apt-get could not install: a" if installs else r"^missing \(.*\): a\n"):
        packages.install(["a"])
    assert ("[Y/n]" in capfd.readouterr().err) == asks


NAME = "libnonesuch-dev"


@pytest.mark.parametrize(
    "lesson, apt_says, status, said, ran",
    [
        (1, "", 0, "it runs", rf"update\n.* install -y .*{NAME}\n"),
        (2, "", 0, "it runs", ""),  # lesson 1 does not need it
        (1, "E: Unable to locate package", 2, f"error: apt-get could not install: {NAME}", r"update\n"),
        (1, "Could not resolve x", 2, f"error: .*: {NAME}; without a network, see docs/running.md.*", r"update\n"),
    ],
)
def test_what_a_lesson_needs_is_installed_before_it_is_built(
    lesson: int, apt_says: str, status: int, said: str, ran: str, course: Course
) -> None:
    course.write("tools/learn/packages.txt", f"{lesson} {NAME} nonesuch.h\n")
    course.program("path/mpirun", "echo it runs")
    course.program("path/sudo", '[ "$1" != -n ] || shift; exec "$@"')  # without a password
    course.program("path/apt-get", f"echo $* >>{course.folder}/log; echo {apt_says}; [ -z '{apt_says}' ]")
    course.environment.pop("CONDA_PREFIX", None)
    log = course.write("log", "")
    course.learn("1", status, f"^{said}$")
    assert re.fullmatch(ran and f".* {ran}", log.read_text()), log.read_text()


def test_a_site_needs_sphinx(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(other_words, "install", asked.append)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Failed, match="^site: sphinx-build is not on the PATH$"):
        other_words.run_site([str(tmp_path / "site")])
    assert asked == [["python3-sphinx", "python3-myst-parser", "furo"]] and not [*tmp_path.iterdir()]
