"""Lets tests import what tests/support and tools/learn hold."""
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE / "support"), str(HERE.parent / "tools/learn")]
