"""Lets tests import what tests/support and tools/learn hold, and has the fixtures of several files."""
import pathlib
import sys

import pytest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE / "support"), str(HERE.parent / "tools/learn")]


@pytest.fixture
def saved(tmp_path):
    """The path of the link that lesson 1 measures, in a folder for programs to run in."""
    (tmp_path / ".learn").mkdir()
    return tmp_path / ".learn/alpha-beta.json"
