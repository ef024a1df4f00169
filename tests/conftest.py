"""Lets tests import what tests/support and tools/learn hold, and has the fixtures of several files."""

import pathlib
import sys

import pytest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE / "support"), str(HERE.parent / "tools/learn"), str(HERE.parent / "tools")]

from programs import command, gpus_and_reason  # noqa: E402


@pytest.fixture(scope="session")
def own_mounts() -> None:
    """For a test that mounts a folder, which others do not see."""
    if command("unshare -m true").status != 0:
        pytest.skip("mounts are not allowed here")


@pytest.fixture(scope="session")
def a_gpu() -> None:
    """For a test that needs a GPU, which may be emulated."""
    count, reason = gpus_and_reason()
    if count == 0:
        pytest.skip(f"no GPU: {reason}")


@pytest.fixture
def saved(tmp_path: pathlib.Path) -> pathlib.Path:
    """The path of the link that lesson 1 measures, in a folder for programs to run in."""
    (tmp_path / ".learn").mkdir()
    return tmp_path / ".learn/alpha-beta.json"
