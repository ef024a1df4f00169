"""Runs scripts with PyTorch, if $PYTHON has it."""

from __future__ import annotations

import functools
import os
import pathlib
import re

import pytest
from programs import ROOT, Environment, Result, command

ON_CPU: Environment = {"CUDA_VISIBLE_DEVICES": "", "GLOO_SOCKET_IFNAME": "lo"}

RECENT = "torch.distributed; torch.distributed.all_gather_single"  # 2.13 or newer


@functools.cache
def first_python_with(module: str) -> str:
    """Empty if there is none, for which it is asked only once."""
    for python in dict.fromkeys([os.environ.get("PYTHON", "python3"), "/usr/bin/python3"]):
        if command(f"{python} -c 'import torch, {module}'").status == 0:
            return python
    return ""


def python_with(module: str) -> str:
    """A Python that can import the module of PyTorch's."""
    if python := first_python_with(module):
        return python
    pytest.skip(f"no python3 here has PyTorch (python3-torch) with {module}")


def torchrun(python: str) -> str:
    """The words that start two processes. PyTorch 1.13, Debian's, cannot name the streams that
    stay as they are if Python is 3.11 or newer, where an IntFlag no longer lists its zero; one
    stream of a process 9, which there is not, says the same."""
    words = f"{python} -m torch.distributed.run --nproc_per_node=2 --standalone"
    old = command(f"{python} -c 'import sys, torch; sys.exit(torch.__version__ >= \"2\")'")
    return words if old.status else f"{words} --redirects 9:1 --tee 9:1"


def two_ranks(python: str) -> str:
    """The words that start two ranks where nothing is asked about torchrun."""
    return f"{python} {pathlib.Path(__file__).with_name('two_ranks.py')}"


def theirs(words: str, folder: str | os.PathLike[str] | None = None) -> Result:
    """Runs what must print the rows of a training."""
    result = command(words, folder, limit=300, **ON_CPU)
    assert result.status == 0, result.err
    return result


TWIN = ROOT / "05_ddp_training/pytorch_twin.py"


def code_on(page: str, begin: str) -> str:
    """The block of Python on a page that begins so, without its indentation in the page."""
    block = re.search(rf"```python\n *({re.escape(begin)}.*?)```", (ROOT / page).read_text(), re.S)
    indentation = re.search(r"^( *)" + re.escape(begin), (ROOT / page).read_text(), re.M)
    assert block and indentation, f"{page} has no {begin}"
    return block[1].replace("\n" + indentation[1], "\n")
