"""Checkpoints that another program has read and written again, such as Python's safetensors library."""

import base64
import json
import pathlib
import struct
from collections.abc import Callable

import pytest
from programs import ROOT, runs, says
from training import SMALL

JOB = f"ddp_training {SMALL}"
TENSORS, RUN = "its tensors", "what it says of the run (step, epoch, flags)"

Header = dict[str, dict[str, object]]


def read(path: pathlib.Path) -> tuple[dict[str, str], dict[str, list[int]], dict[str, bytes]]:
    """The metadata, and each tensor's shape and bytes."""
    content = path.read_bytes()
    begin = 8 + struct.unpack_from("<Q", content)[0]
    header = json.loads(content[8:begin])
    about = header.pop("__metadata__")
    shapes = {name: each["shape"] for name, each in header.items()}
    spans = {name: each["data_offsets"] for name, each in header.items()}
    return about, shapes, {name: content[begin + first : begin + last] for name, (first, last) in spans.items()}


def write(path: pathlib.Path, about: dict[str, str], shapes: dict[str, list[int]], data: dict[str, bytes]) -> None:
    """As the library does: sorted by name, and what is said of the run in an order of its own."""
    header: dict[str, object] = {"__metadata__": dict(reversed(about.items()))}
    numbers = b""
    for name in sorted(data):
        offsets = [len(numbers), len(numbers) + len(data[name])]
        header[name] = {"dtype": "F32", "shape": shapes[name], "data_offsets": offsets}
        numbers += data[name]
    text = json.dumps(header, separators=(",", ":")).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + numbers)


@pytest.fixture
def saved(tmp_path: pathlib.Path) -> pathlib.Path:
    runs(2, f"{JOB} --checkpoint x --max-steps 3", tmp_path)
    return tmp_path / "x"


def written_again(path: pathlib.Path) -> None:
    write(path, *read(path))


def with_another_number(path: pathlib.Path) -> None:
    about, shapes, data = read(path)
    data["2.bias"] = struct.pack("<f", 0.5) + data["2.bias"][4:]
    write(path, about, shapes, data)


def with_another_step(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"step":"3"', b'"step":"2"'))


def with_another_step_and_number(path: pathlib.Path) -> None:
    with_another_step(path)
    with_another_number(path)


@pytest.mark.parametrize(
    "change, changed",
    [
        (written_again, ""),
        (with_another_number, TENSORS),
        (with_another_step, RUN),
        (with_another_step_and_number, f"{TENSORS}, and {RUN}"),
    ],
)
def test_init_takes_what_another_program_wrote_and_resume_what_is_unchanged(
    change: Callable[[pathlib.Path], None], changed: str, saved: pathlib.Path
) -> None:
    folder = saved.parent
    runs(2, f"{JOB} --checkpoint whole --max-steps 6", folder)
    before = saved.read_bytes()
    change(saved)
    assert saved.read_bytes() != before
    said = f"another program has changed x since a run wrote it: {changed}"
    started = runs(2, f"{JOB} --init x --max-steps 1", folder)
    assert (f"note: {said}" in started.out) == bool(changed), started.out
    resumed = runs(2, f"{JOB} --checkpoint x --max-steps 6 --resume", folder, status=2 if changed else 0)
    if changed:
        says(resumed, f"error: --resume: {said}; --init takes its parameters")
    else:
        assert saved.read_bytes() == (folder / "whole").read_bytes()


def test_a_flipped_bit_is_damage_and_nobodys_change(saved: pathlib.Path) -> None:
    content = bytearray(saved.read_bytes())
    content[-20] ^= 4
    saved.write_bytes(content)
    for flags in "--init x", "--checkpoint x --resume":
        result = runs(2, f"{JOB} {flags} --max-steps 6", saved.parent, status=2)
        says(result, "x: damaged: its checksum does not match its content")


def test_a_checkpoint_of_release_1_0_0_can_be_resumed(tmp_path: pathlib.Path) -> None:
    """With a single checksum. Made by: mpirun -np 2 ddp_training SMALL --device cpu --max-steps 3 --checkpoint FILE"""
    old = base64.b64decode((ROOT / "tests/golden/release_1_0_0.st.base64").read_bytes())
    assert b"xxh3_64_" not in old
    (tmp_path / "x").write_bytes(old)
    job = f"ddp_training {SMALL} --device cpu --max-steps 6 --checkpoint"
    says(runs(2, f"{job} x --resume", tmp_path), "continues x after step 3")
    runs(2, f"{job} whole", tmp_path)
    (about, shapes, data), (about_whole, shapes_whole, data_whole) = read(tmp_path / "x"), read(tmp_path / "whole")
    same = {key: text for key, text in about.items() if not key.startswith("xxh3_64")}
    assert same.items() <= about_whole.items() and about.keys() == about_whole.keys() and shapes == shapes_whole
    for name, numbers in data.items():  # its first steps were taken on another chip, which adds in another order
        count = len(numbers) // 4
        pairs = zip(struct.unpack(f"<{count}f", numbers), struct.unpack(f"<{count}f", data_whole[name]))
        assert all(abs(ours - whole) <= 1e-6 for ours, whole in pairs), name
