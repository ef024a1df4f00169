"""./learn on machines with other cards and tools."""

import os
import pathlib

from programs import BUILD, Environment

LEARN: Environment = {"LEARN_BUILD_DIR": str(BUILD)}


def with_cards(folder: pathlib.Path, *cards: str) -> str:
    """A PATH on which nvidia-smi lists GPUs with these compute capabilities."""
    tool = folder / "bin/nvidia-smi"
    tool.parent.mkdir()
    lines = [f"echo {card}" if card else "true" for card in cards]
    names = [f"echo 'GPU {i}: a card'" for i in range(len(cards))]
    tool.write_text("\n".join(["#!/bin/sh", 'if [ "$1" = -L ]; then', *names, "else", *lines, "fi"]))
    tool.chmod(0o755)
    return f"{tool.parent}:{os.environ['PATH']}"
