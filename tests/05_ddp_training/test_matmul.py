"""--matmul: with each library that multiplies on the CPU, PyTorch's losses, the same bits on every number of ranks with
--deterministic, and an exact resume; and what is refused."""

from __future__ import annotations

import pathlib
import re

import pytest
from programs import CACHE, NO_GRACE, command, mpirun, refused, runs
from training import GOLDEN, repeat, train

NAMES = {"onednn": "oneDNN", "openblas": "OpenBLAS"}
FOUND = {
    name: re.search(f"^{title}_LIBRARY:.*=/", CACHE, re.M | re.I) is not None
    and re.search(f"^CMAKE_DISABLE_FIND_PACKAGE_{title}:.*=ON", CACHE, re.M | re.I) is None
    for name, title in NAMES.items()
}
LIBRARIES = [*(name for name, found in FOUND.items() if found), "plain"]
JOB = "--device cpu --dataset synthetic --samples 600 --layers 40,130,129,5 --classes 5"

each = pytest.mark.parametrize("library", LIBRARIES)


@each
def test_a_run_names_the_library_its_version_and_its_kernels(library: str) -> None:
    text = train(2, f"{JOB} --max-steps 2 --matmul {library}").final["matmul"]
    assert re.fullmatch(rf"{NAMES[library]} \d+\.\d+\.\d+ \(.+\)" if library in NAMES else "plain loop", text)


def test_by_default_the_processor_decides_between_those_that_are_there() -> None:
    text = train(1, f"{JOB} --max-steps 2").final["matmul"]
    has_avx512 = "avx512f" in pathlib.Path("/proc/cpuinfo").read_text()
    if FOUND["openblas"] and not (FOUND["onednn"] and has_avx512):
        assert text.startswith("OpenBLAS ")
        assert ("and oneDNN " in text) == FOUND["onednn"]
    else:
        assert text.startswith("oneDNN " if FOUND["onednn"] else "plain loop")
    assert train(1, f"{JOB} --max-steps 2 --matmul auto").final["matmul"] == text


@each
def test_the_losses_are_pytorchs(library: str) -> None:
    repeat(GOLDEN[0], f"--device cpu --matmul {library}")


@each
def test_deterministic_runs_have_the_same_bits_on_every_number_of_ranks(library: str) -> None:
    job = f"{JOB} --global-batch 320 --max-steps 4 --deterministic --matmul {library}"
    alone = train(1, job).parameters
    assert all(train(ranks, job).parameters == alone for ranks in (2, 4, 8))


@each
def test_a_resumed_run_ends_with_the_bits_of_one_that_was_not_stopped(library: str, tmp_path: pathlib.Path) -> None:
    job = f"{JOB} --batch-size 64 --matmul {library}"
    whole = train(2, f"{job} --max-steps 8").parameters
    train(2, f"{job} --max-steps 3 --checkpoint x.st", tmp_path)
    assert train(2, f"{job} --max-steps 8 --checkpoint x.st --resume", tmp_path).parameters == whole


# What a newer or an older processor would change.
KERNELS = {"onednn": "ONEDNN_MAX_CPU_ISA=AVX", "openblas": "OPENBLAS_CORETYPE=Prescott"}


@pytest.mark.parametrize("library", [name for name in NAMES if FOUND[name]])
def test_ranks_whose_kernels_differ_train_but_not_bit_for_bit(library: str) -> None:
    program = f"$BIN/ddp_training {JOB} --batch-size 80 --max-steps 2 --matmul {library}"

    def on_two(flags: str) -> str:
        return f"exec mpirun -np 1 {program} {flags} : -np 1 env {KERNELS[library]} {program} {flags}"

    assert command(on_two(""), **NO_GRACE).status == 0
    result = command(on_two("--deterministic"), **NO_GRACE)
    assert result.status == 2
    name = NAMES[library]
    assert re.search(
        rf"^error: --deterministic: products: {name} \S+ \((.*)\) on rank 0, but {name} \S+ \((?!\1).*\) on rank 1$",
        result.err,
        re.M,
    )


@pytest.mark.parametrize("library", [name for name in NAMES if not FOUND[name]])
def test_a_library_that_the_build_has_not_is_refused(library: str) -> None:
    refused(f"ddp_training --matmul {library}", f"--matmul: {NAMES[library]} was not there when this program was built")


def test_an_unknown_library_is_refused() -> None:
    refused("ddp_training --matmul mkl", "--matmul: ")


@pytest.mark.parametrize("library", [name for name in LIBRARIES if name != "onednn"])
def test_bf16_is_refused_where_only_onednn_has_it(library: str, tmp_path: pathlib.Path) -> None:
    tried = mpirun(1, f"ddp_training {JOB} --max-steps 1 --precision bf16")
    if tried.status == 2:
        pytest.skip(re.findall("error: .*", tried.err)[0])
    refused(f"ddp_training --precision bf16 --device cpu --matmul {library}", f"--matmul: {library} has no products")


def test_a_setting_of_the_readers_for_threads_does_not_count() -> None:
    job = f"{JOB} --batch-size 100 --max-steps 3"
    assert (
        runs(2, f"ddp_training --json {job}", OPENBLAS_NUM_THREADS="2", OMP_NUM_THREADS="2").rows[-1]["parameters"]
        == train(2, job).parameters
    )
