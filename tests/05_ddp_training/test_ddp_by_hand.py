"""ddp_by_hand trains as one process does, and as ddp_training without buckets, bit for bit."""

import ctypes
import json
import pathlib
import re
from typing import Any

import pytest
from programs import CACHE, Result, command, runs
from training import train


def only_row(result: Result) -> dict[str, Any]:
    """What single_process or ddp_by_hand prints with --json."""
    assert result.status == 0, result.out + result.err
    (row,) = result.rows
    return row


def fingerprint_in(file: pathlib.Path) -> str:
    """The fingerprint that these programs print, of the parameters in a checkpoint. What comes
    after them, the optimizer's state, has names that begin with a letter."""
    library = ctypes.CDLL(re.findall("^XXHASH_LIBRARY:.*?=(.*)", CACHE, re.M)[0])
    xxh3 = library.XXH3_64bits_withSeed
    xxh3.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64)
    xxh3.restype = ctypes.c_uint64
    content = file.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    tensors = json.loads(content[8:begin])
    parameters = [tensors[name]["data_offsets"] for name in tensors if name[0].isdigit()]
    value = 0
    for first, last in sorted(parameters):
        value = xxh3(content[begin + first : begin + last], last - first, value)
    return f"{value:016x}"


@pytest.mark.quick
def test_ddp_by_hand_trains_as_one_process_does_and_as_ddp_training_without_buckets(tmp_path: pathlib.Path) -> None:
    flags = "--json --epochs 1 --seed 3"
    alone = only_row(command(f"$BIN/single_process {flags}", limit=400))
    assert alone["test_accuracy"] > 0.9
    by_hand = {ranks: only_row(runs(ranks, f"ddp_by_hand {flags}", limit=400)) for ranks in (1, 2, 3, 4, 8)}
    assert by_hand[1] == alone
    for ranks, row in by_hand.items():
        assert row["ranks"] == ranks and row["replicas_identical"] is True
    without_buckets = "--device cpu --first-bucket-mb 0 --bucket-cap-mb 0"
    trainer = train(4, f"{flags} {without_buckets} --checkpoint model", tmp_path, limit=400)
    assert by_hand[4]["fingerprint"] == fingerprint_in(tmp_path / "model")
    assert by_hand[4]["test_accuracy"] == trainer.final["test_accuracy"]
