"""A link as lesson 1's ping-pong would save it, and what programs predict from it."""

import pathlib
from typing import Any

from programs import runs

LINK = {
    "alpha_us": 10,
    "beta_ns_per_byte": 1,
    "r2": 1,
    "ranks": 3,
    "device": "cpu",
    "message": [],
    "exchange": [],
}  # what lesson 1's ping-pong would save


def predictions(ranks: int, program: str, folder: pathlib.Path) -> dict[str, dict[str, Any]]:
    """The row of each algorithm for one size."""
    flags = "--json --device cpu --iterations 1 --min-bytes 65536 --max-bytes 65536"
    return {row["algorithm"]: row for row in runs(ranks, f"{program} {flags}", folder).rows}
