"""Packages that are missing: who can install them, and the line to type for who cannot."""

import os
import pathlib
from collections.abc import Callable

import pytest

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
