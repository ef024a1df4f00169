"""What programs refuse: flags that make no sense, files that are damaged or from a different run.
All ranks refuse together, with status 2 and one sentence that begins with the name of the flag,
before they do any work or write anything. Each rule has one row. What is a number, a list or a choice is
proved in command_line_test.cpp, that ranks which differ end together in test_ranks_that_differ.py."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import struct

import pytest
from programs import command, refused, runs

SYNTHETIC = "--dataset synthetic --samples 64 --layers 6,5,10 --batch-size 4"

IDX = "ddp_training --dataset idx --data whole --layers 6,2 --batch-size 2"
RESUMED = f"ddp_training {SYNTHETIC} --metrics run.jsonl --checkpoint run.st --resume"


def four(
    begin: str, images: str = "images-idx3-ubyte", labels: str = "labels-idx1-ubyte", test: str = "t10k"
) -> list[str]:
    """The files of a data set."""
    return [f"{begin}{part}-{kind}" for part in ("train", test) for kind in (images, labels)]


MNIST = four("")

# Folders of empty files: {name: (files, how the error goes on after the name)}. The first of the
# files is read first, but only if all of a data set's files are found.
FOLDERS: dict[str, tuple[list[str], str]] = {
    **{
        name: (files, f"/{files[0]}: is not an IDX file of images (")
        for name, files in {
            "kaggle": [f"{name}/{name}" for name in MNIST],
            "7-zip": four("", "images.idx3-ubyte", "labels.idx1-ubyte") + ["._x-images-idx3-ubyte"],
            "torchvision": four("MNIST/raw/"),
            "emnist": four("gzip/emnist-letters-", test="test"),
            "qmnist": four("qmnist-", labels="labels-idx2-int", test="test"),
        }.items()
    },
    "empty": ([], ": contains no *-images-idx3-ubyte[.gz], but nothing"),
    "mac": (
        ["._x-images-idx3-ubyte", "1", "2", "3"],
        ": contains no *-images-idx3-ubyte[.gz], but ._x-images-idx3-ubyte, 1, 2 and 1 more",
    ),
    "two": (four("A/raw/") + four("B/raw/"), ": choose one of its folders: two/A/raw, two/B/raw"),
    "splits": (
        four("digits-") + four("letters-", test="test"),
        ": has digits-train, letters-train: move one set's files",
    ),
    "pairs": (four("x-")[:2] + four("y-")[:2], ": 2 pairs of files, but not train-* and t10k-*"),
    "no-images": (MNIST[1:], f": {MNIST[0]}[.gz] is missing, but no-images/{MNIST[1]} is there"),
    "no-labels": (MNIST[:3], f": {MNIST[3]}[.gz] is missing, but no-labels/{MNIST[2]} is there"),
}

# How a command begins: [(how it goes on, how the error begins, ranks if not 2)]. The first row of
# each command is in the quick tier.
TABLE: dict[str, list[tuple[str, str] | tuple[str, str, int]]] = {
    "tensor_parallel": [
        ("--layers 784,10,10,10", "--layers: needs an odd number of widths"),
        ("--layers 10,10,10", "--layers: digits need 784"),
        ("--data-parallel 3", "--data-parallel: 3 does not divide 2 ranks"),
        ("--data-parallel 2 --batch-size 9", "--batch-size: 9 is not divisible by"),
    ],
    "pipeline_parallel": [
        ("--micro-batches 7", "--micro-batches: 7 does not divide 64 samples"),
        ("--layers 784,10", "--layers: fewer layers than the 2 stages"),
    ],
    "send_recv": [("--bogus", "--bogus: unknown flag")],
    "broadcast": [("--root 2", "--root: 2 is not between 0 and 1")],
    "all_reduce --trace t.json": [
        ("--op mean", "--op: 'mean' is not one of"),
        ("--max-bytes 4", "--max-bytes: unknown flag"),
    ],
    "send_recv_perf --trace t.json": [
        ("--act pingpong", "--act: pingpong needs two ranks", 1),
        ("--act $'\\e[2J'", "--act: '\\x1b[2J' is not one of"),
        ("--min-bytes 3", "--min-bytes: 3 is not between"),
        ("--min-bytes 6", "--min-bytes: 6 is not a whole number of floats"),
        ("--max-bytes K", "--max-bytes: 'K' is not a whole number"),
        ("--min-bytes -5K", "--min-bytes: -5K is not between"),
        ("--max-bytes 8000000000G", "--max-bytes: 8000000000G is not between"),
        ("--act pingpong --max-bytes 8589934592", "--max-bytes: 8589934592 is not between"),
        ("--min-bytes 64 --max-bytes 16", "--min-bytes: larger than --max-bytes"),
        ("--seed -1", "--seed: -1 is not between"),
        ("--threads 0", "--threads: 0 is not between"),
        ("--timeout -1", "--timeout: -1 is not between"),
        ("--trace no/such/t.json", "--trace: no/such/t.json: cannot be written: No such"),
        ("--trace .", "--trace: . is a folder"),
    ],
    "broadcast_perf --trace t.json": [
        ("--root 2", "--root: 2 is not between 0 and 1"),
        ("--iterations 0", "--iterations: 0 is not between"),
        ("--max-bytes 0", "--max-bytes: 0 is not between"),
        ("--algorithm nccl --device cpu", "--algorithm: nccl: "),
    ],
    "all_reduce_perf --trace t.json": [
        ("--op mean", "--op: 'mean' is not one of"),
        ("--algorithm tree", "--algorithm: 'tree' is not one of"),
        ("--algorithm nccl --device cpu", "--algorithm: nccl: "),
        ("--iterations -3", "--iterations: -3 is not between"),
    ],
    "distributed_sampler --trace t.json": [
        ("--num-replicas 3", "--rank: must be given together with --num-replicas"),
        ("--num-replicas 0 --rank 0", "--num-replicas: 0 is not between"),
        ("--num-replicas 4 --rank -1", "--rank: -1 is not between"),
        ("--num-replicas 2 --rank 2", "--rank: there is no rank 2"),
        ("--epoch -1", "--epoch: -1 is not between"),
    ],
    "single_process": [("--epochs 0", "--epochs: 0 is not between", 1)],
    "ddp_by_hand --trace t.json": [
        ("--epochs 0", "--epochs: 0 is not between"),
        ("--batch-size 4", "--batch-size: unknown flag"),
    ],
    "ddp_training --trace t.json --metrics m.jsonl --checkpoint c": [
        ("--global-batch 3", "--global-batch: 3 is not divisible by 2 ranks"),
        ("--global-batch 4 --batch-size 2", "--global-batch: cannot be combined with --batch-size"),
        ("--batch-size 0", "--batch-size: 0 is not between"),
        ("--batch-size 1000000", "--batch-size: 1000000 per rank, but the whole training set"),
        ("--scale-lr --global-batch 60", "--scale-lr: --global-batch does not"),
        ("--dataset mnist", "--dataset: 'mnist' is not one of"),
        ("--dataset synthetic --samples 1 --batch-size 1", "--dataset: 1 samples are too few for 2"),
        ("--dataset synthetic --samples 0", "--samples: 0 is not between"),
        ("--dataset synthetic --samples 9 --batch-size 6 --loader-drop-last", "--loader-drop-last: leaves no batch"),
        ("--data .", "--data: must be given together with --dataset idx"),
        ("--dataset idx --data no/such", "--data: no/such"),
        *[(f"--dataset idx --data {name}", f"--data: {name}{error}") for name, (_, error) in FOLDERS.items()],
        ("--dataset idx --data cut", "--data: cut/x-images-idx3-ubyte: truncated"),
        ("--dataset idx --data whole --layers 784,10", "--layers: the input width is 784, but a sample has 6 features"),
        ("--classes -1", "--classes: -1 is not between"),
        ("--test-fraction 1.5", "--test-fraction: 1.5 is not between"),
        ("--layers ''", "--layers: "),
        ("--layers 784", "--layers: needs at least"),
        ("--layers 784,-3,10", "--layers: -3 is not between"),
        ("--layers 783,10", "--layers: the input width is 783"),
        ("--layers 784,9", "--layers: the output width is 9, but the label of training sample "),
        (
            "--layers 784,16777216,16777216,10",
            "--layers: the parameters and gradients take 2251906650996816 bytes, but",
        ),
        (
            "--dataset synthetic --classes 2 --samples 1073741824 --layers 1048576,2",
            "--samples: the samples take 4503603922337792 bytes, but this host has",
        ),
        (
            "--device cpu --dataset synthetic --samples 9000000 --layers 6,16777216,10 --batch-size 9000000",
            "--batch-size: a batch's activations take ",
        ),
        ("--epochs 0", "--epochs: 0 is not between"),
        ("--max-steps 0", "--max-steps: 0 is not between"),
        ("--warmup-steps -1", "--warmup-steps: -1 is not between"),
        ("--accumulate 0", "--accumulate: 0 is not between"),
        ("--precision fp16", "--precision: "),
        ("--backend gloo", "--backend: 'gloo' is not one of"),
        ("--backend nccl --device cpu", "--backend: nccl: "),
        ("--algorithm tree", "--algorithm: 'tree' is not one of"),
        ("--algorithm ring --backend mpi", "--algorithm: needs --backend ours"),
        ("--bucket-cap-mb -1", "--bucket-cap-mb: -1 is not between"),
        ("--pretend-link 0.001", "--pretend-link: 0.001 is not between"),
        ("--check-replicas -1", "--check-replicas: -1 is not between"),
        ("--checkpoint-every 0", "--checkpoint-every: 0 is not between"),
        ("--checkpoint no/such/x", "--checkpoint: no/such/x: cannot be written: No such"),
        ("--metrics .", "--metrics: . is a folder"),
        ("--metrics ./c", "--metrics: ./c is in use by --checkpoint of process "),
        ("--trace c", "--trace: c is in use by --checkpoint of process "),
        ("--metrics /dev/null", "--metrics: /dev/null is not a regular file"),
        (f"--metrics {'m' * 250}", "--metrics: mmm"),
        ("--init /dev/null", "--init: /dev/null"),
        ("--evaluate", "--evaluate: needs the parameters of --init"),
    ],
    "ddp_training": [
        ("--resume", "--resume: needs --checkpoint"),
        ("--checkpoint-every 5", "--checkpoint-every: needs --checkpoint"),
        ("--shard gradients --deterministic", "--shard: cannot be combined with --deterministic"),
        ("--shard gradients --algorithm rabenseifner", "--shard: needs the two halves"),
    ],
    "ddp_training --optimizer adamw": [
        ("--momentum 0", "--momentum: is for --optimizer sgd"),
        ("--dampening 0.1", "--dampening: is for"),
        ("--nesterov", "--nesterov: is for --optimizer sgd, not for adamw"),
        ("--lr -1", "--lr: -1 is not between"),
        ("--weight-decay -0.1", "--weight-decay: -0.1 is not between"),
        ("--eps -1e-8", "--eps: -1e-8 is not between"),
        ("--betas 0.9,0.9,0.9", "--betas: '0.9,0.9,0.9' is not 2 numbers"),
        ("--betas -0.1,0.999", "--betas: -0.1 is not between"),
        ("--betas 1,0.999", "--betas: must be below 1"),
    ],
    "ddp_training --optimizer sgd": [
        ("--betas 0.9,0.99", "--betas: is for --optimizer adam and"),
        ("--eps 1e-8", "--eps: is for --optimizer adam and adamw"),
        ("--momentum 1.5", "--momentum: 1.5 is not between"),
        ("--nesterov", "--nesterov: needs --momentum above 0"),
        ("--nesterov --momentum 0.9 --dampening 0.1", "--nesterov: needs --dampening 0"),
        ("--dampening 0.5", "--dampening: needs --momentum above 0"),
        ("--momentum 0.9 --dampening 2", "--dampening: 2 is not between"),
        ("--optimizer adagrad", "--optimizer: 'adagrad' is not one of"),
    ],
    "ddp_training --json --deterministic": [
        ("", "--deterministic: the 8 virtual ranks need 1, 2, 4 or 8 processes, not 3", 3),
        ("--batch-size 6", "--deterministic: a batch of 12 over all ranks (--batch-size times"),
        ("--global-batch 20", "--deterministic: a batch of 20 over all ranks (--global-batch)"),
        ("--backend mpi", "--deterministic: adds gradients in its own fixed tree and cannot use"),
        ("--algorithm auto", "--deterministic: adds all gradients at once in its own fixed tree"),
        (
            "--bucket-cap-mb 4",
            "--deterministic: adds all gradients at once in its own fixed tree and cannot use --bucket-cap-mb",
        ),
        ("--overlap", "--deterministic: sends only after backward, so it cannot use --overlap"),
        ("--accumulate 2", "--deterministic: cannot be combined with --accumulate above 1"),
        ("--pretend-link 1", "--deterministic: adds gradients in its own fixed tree, which"),
        ("--threads 2", "--deterministic: needs --threads 1"),
        ("--dataset synthetic --samples 7 --batch-size 4", "--dataset: 7 samples are too few for 8"),
        (
            "--dataset synthetic --samples 30 --batch-size 20 --loader-drop-last",
            "--loader-drop-last: leaves no batch, because a rank has only 4 samples",
        ),
    ],
    "ddp_training --explain": [
        ("", "--explain: needs 2 ranks, not 1", 1),
        ("--json", "--explain: needs 2 ranks, not 3", 3),
        ("--layers 784,10", "--explain: cannot be combined with --layers"),
        ("--lr 0.1", "--explain: cannot be combined with --lr"),
        ("--drop-last", "--explain: cannot be combined with --drop-last"),
        ("--accumulate 2", "--explain: cannot be combined with --accumulate"),
        ("--checkpoint x", "--explain: cannot be combined with --checkpoint"),
    ],
    RESUMED: [
        ("--checkpoint flipped.st", "--resume: flipped.st: damaged"),
        ("--checkpoint cut.st", "--resume: cut.st: "),
        ("--checkpoint none.st", "--resume: there is no file none.st"),
        ("--checkpoint unchecked.st", "--resume: unchecked.st: has no checksum"),
        ("--lr 0.5", "--resume: --lr: 0.5, but run.st is from a run with 0.001"),
        ("--samples 63", "--resume: --samples: 63"),
        ("--batch-size 5", "--resume: samples per step: 10"),
        ("--optimizer sgd", "--resume: --lr: 0.01"),
        ("--layers 6,7,10", "--resume: run.st: 0.weight is"),
        ("--checkpoint nan.st", "--resume: nan.st: element 7 of 0.weight is nan, so"),
        ("--checkpoint inf.st", "--resume: inf.st: element 9 of optimizer.exp_avg_sq.2.bias is inf"),
        ("--init run.st", "--init: cannot be combined with --resume"),
    ],
    f"ddp_training {SYNTHETIC}": [
        ("--init none.st", "--init: there is no file none.st"),
        ("--init flipped.st", "--init: flipped.st: damaged"),
        ("--init pipe", "--init: pipe: is not a regular file"),
        ("--init pointer", "--init: pointer: is not a safetensors file, but a Git LFS pointer"),
        ("--init nan.st", "--init: nan.st: element 7 of 0.weight is nan, so the run that wrote it"),
        ("--evaluate --init run.st", "--evaluate: the synthetic data"),
        ("--init run.st --metrics link.st", "--metrics: link.st is a file that --init reads"),
        ("--init link.st --trace ./run.st", "--trace: ./run.st is a file that --init reads"),
    ],
    IDX: [
        ("--metrics whole/x-images-idx3-ubyte", "--metrics: whole/x-images-idx3-ubyte is a file that --data reads"),
        ("--trace same/x-labels-idx1-ubyte", "--trace: same/x-labels-idx1-ubyte is a file that --data reads"),
        ("--checkpoint image.link", "--checkpoint: image.link is a file that --data reads"),
        (
            "--evaluate --resume --checkpoint run.st --metrics same/../run.st",
            "--metrics: same/../run.st is a file that --resume reads",
        ),
        ("--evaluate --resume --checkpoint run.st --trace run.st", "--trace: run.st is a file that --resume reads"),
    ],
}

LESSONS = [
    "send_recv",
    "broadcast",
    "all_reduce",
    "distributed_sampler",
    "single_process",
    "ddp_by_hand",
    "ddp_training",
]

ROWS = [
    pytest.param(
        f"{begin} {end}",
        error,
        *(ranks or [2]),
        id=f"{begin} {end[:60]}",
        marks=[pytest.mark.quick] if place == 0 and begin.split()[0] in LESSONS else [],
    )
    for begin, rows in TABLE.items()
    for place, (end, error, *ranks) in enumerate(rows)
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a run's files, damaged ones, and data."""
    folder = tmp_path_factory.mktemp("prepared")
    runs(2, f"ddp_training {SYNTHETIC} --max-steps 3 --metrics run.jsonl --checkpoint run.st", folder)
    whole = (folder / "run.st").read_bytes()
    (folder / "cut.st").write_bytes(whole[:500])
    (folder / "flipped.st").write_bytes(whole[:-20] + bytes([whole[-20] ^ 4]) + whole[-19:])
    unchecked = whole.replace(b"xxh3_64", b"xxh3_46")
    (folder / "unchecked.st").write_bytes(unchecked)
    place = 8 + struct.unpack_from("<Q", whole)[0] + 4 * 7  # of an element of the first tensor
    (folder / "nan.st").write_bytes(unchecked[:place] + b"\0\0\xc0\x7f" + unchecked[place + 4 :])
    (folder / "inf.st").write_bytes(unchecked[:-4] + b"\0\0\x80\x7f")
    for name, kept in ("whole", None), ("cut", 40):  # ten images of 2 x 3 pixels
        (folder / name).mkdir()
        images = struct.pack(">4I", 0x803, 10, 2, 3) + bytes([7] * 60)
        (folder / name / "x-images-idx3-ubyte").write_bytes(images[:kept])
        labels = struct.pack(">2I", 0x801, 10) + bytes([1] * 10)
        (folder / name / "x-labels-idx1-ubyte").write_bytes(labels)
    (folder / "link.st").symlink_to("run.st")
    (folder / "same").symlink_to("whole")
    (folder / "image.link").symlink_to("same/x-images-idx3-ubyte")
    for name, (files, _) in FOLDERS.items():
        (folder / name).mkdir()
        for file in files:
            (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / file).touch()
    (folder / "pointer").write_text("version https://git-lfs.github.com/spec/v1\n")
    return folder


def content(folder: pathlib.Path) -> dict[str, bytes | None]:
    """The folder's files and what they hold."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def folder(prepared: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of what `prepared` has, and a pipe, which cannot be copied."""
    shutil.copytree(prepared, tmp_path, symlinks=True, dirs_exist_ok=True)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


# The parser refuses these before ranks matter, as the first row of each command shows.
FIRST = {f"{begin} {rows[0][0]}" for begin, rows in TABLE.items()}
BY_THE_PARSER = re.compile("is not between|is not one of|is not a whole number|unknown flag")


@pytest.mark.parametrize("words, error, ranks", ROWS)
def test_refusal(words: str, error: str, ranks: int, folder: pathlib.Path) -> None:
    before = content(folder)
    if BY_THE_PARSER.search(error) and words not in FIRST:
        result = command(f"$BIN/{words}", folder)
        assert result.status == 2 and result.err.startswith("error: " + error) and not result.out, result
    else:
        refused(words, error, ranks, folder)
    assert content(folder) == before


def test_a_model_may_know_more_classes_than_the_data_has(folder: pathlib.Path) -> None:
    runs(2, f"{IDX.replace('6,2', '6,12')} --epochs 1 --device cpu", folder)
