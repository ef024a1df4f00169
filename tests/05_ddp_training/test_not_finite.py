"""Numbers that are not finite: training ends, says so, and replaces no checkpoint."""

import json
import pathlib
import re
import struct

import pytest
from programs import runs, says

NARROW = "ddp_training --device cpu --layers 784,16,16,10"


@pytest.mark.parametrize("shard", ["none", "parameters"])
def test_a_run_that_diverged_replaces_no_checkpoint(tmp_path: pathlib.Path, shard: str) -> None:
    runs(2, f"{NARROW} --max-steps 1 --checkpoint x", tmp_path)
    before = (tmp_path / "x").read_bytes()
    # Without eps, Adam makes NaN of the weights of pixels that are always black: 0 / 0.
    says(
        runs(2, f"{NARROW} --max-steps 1 --eps 0 --shard {shard} --checkpoint x", tmp_path, status=1),
        "WRONG: training diverged by step 1, so x was not written",
    )
    assert (tmp_path / "x").read_bytes() == before and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("shard", ["none", "optimizer", "gradients", "parameters"])
def test_a_parameter_that_is_not_finite_ends_the_run_by_its_name(tmp_path: pathlib.Path, shard: str) -> None:
    runs(2, f"{NARROW} --max-steps 1 --checkpoint x", tmp_path)
    before = (tmp_path / "x").read_bytes()
    job = f"{NARROW} --max-steps 40 --eps 0 --shard {shard} --checkpoint x --checkpoint-every 30 --json"
    result = runs(2, job, tmp_path, status=1)
    assert re.search(r"WRONG: the parameters diverged: \d\.weight has a number that is not finite", result.err)
    assert sum("step" in row for row in result.rows) < 10
    assert (tmp_path / "x").read_bytes() == before


def with_number(path: pathlib.Path, name: str, index: int, number: float) -> bytes:
    """The parameters of a checkpoint, as a file of their own in which one number is changed."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, numbers = json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])
    parameters = {key: value for key, value in header.items() if key[0].isdigit()}
    at = parameters[name]["data_offsets"][0] + 4 * index
    numbers[at : at + 4] = struct.pack("<f", number)
    text = json.dumps(parameters).encode()
    most = max(value["data_offsets"][1] for value in parameters.values())
    return len(text).to_bytes(8, "little") + text + numbers[:most]


@pytest.mark.parametrize("shard", ["optimizer", "parameters"])
def test_each_rank_says_whether_the_part_that_it_updates_diverged(tmp_path: pathlib.Path, shard: str) -> None:
    """A weight of a pixel that is always black changes no loss, but weight decay overflows."""
    runs(2, f"{NARROW} --max-steps 1 --checkpoint x", tmp_path)
    before = (tmp_path / "x").read_bytes()
    job = f"{NARROW} --max-steps 1 --optimizer sgd --weight-decay 10 --init huge --shard {shard} --checkpoint x"
    for index, rank in ((15 * 784, 1), (0, 0)):  # the last and the first row of the first layer
        (tmp_path / "huge").write_bytes(with_number(tmp_path / "x", "0.weight", index, 3e38))
        says(runs(2, job, tmp_path, status=1), "WRONG: training diverged by step 1, so x was not written")
        assert (tmp_path / "x").read_bytes() == before, rank


def test_an_overflow_in_the_first_layer_shows_in_the_loss_at_once(tmp_path: pathlib.Path) -> None:
    runs(1, f"{NARROW} --max-steps 1 --checkpoint x", tmp_path)
    whole = (tmp_path / "x").read_bytes().replace(b"xxh3_64", b"xxh3_46")
    data = 8 + struct.unpack_from("<Q", whole)[0]
    (tmp_path / "x").write_bytes(whole[:data] + struct.pack("<f", 3e38) * (784 * 16) + whole[data + 4 * 784 * 16 :])
    result = runs(2, f"{NARROW} --init x --max-steps 30 --json", tmp_path, status=1)
    says(result, "10 steps in a row had to be skipped")
    assert {row["loss"] for row in result.rows} == {None}
