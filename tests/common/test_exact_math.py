"""The configuration refuses a compiler that was told to break the rules of floating-point arithmetic,
however it was told, and no other (cmake/ExactMath.cmake)."""

import pathlib
import shutil

import pytest
from programs import ROOT, Environment, command

FINITE, ORDER = "takes every number for finite", "changes the order of sums"
COARSE, SMALLEST = "approximates quotients or roots", "replaces the smallest numbers by zero"


@pytest.mark.parametrize(
    "flags, wrong",
    [
        ("", []),
        ("-O0", []),
        ("-O3 -march=native -fno-math-errno -fno-trapping-math", []),
        ("-O3 -ffast-math -fno-fast-math", []),
        ("-O3 -flto", []),
        ("-O3 -ffast-math", [FINITE, ORDER, COARSE, SMALLEST]),
        ("-Ofast", [FINITE, ORDER, COARSE, SMALLEST]),
        ("-O1 -ffinite-math-only", [FINITE]),
        ("-O3 -funsafe-math-optimizations", [ORDER, COARSE, SMALLEST]),
        ("-O2 -fassociative-math -fno-signed-zeros -fno-trapping-math", [ORDER]),
    ],
)
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_what_a_compiler_breaks(compiler: str, flags: str, wrong: list[str], tmp_path: pathlib.Path) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    result = command(f"{compiler} -std=c++20 {flags} {ROOT}/cmake/exact_math.cpp -o try && ./try", tmp_path)
    # Compilers differ in what they make of a permission to reorder, but not in whether one is given.
    assert result.status == (result.out.count(",") + 1 if wrong else 0), result
    if compiler == "g++" or FINITE in wrong:
        assert {*wrong} <= {*result.out.split(", ")}, result


def test_gcc_takes_the_last_level_of_optimization(tmp_path: pathlib.Path) -> None:
    """So -Ofast, which a preset's -O3 follows, is no fast math."""
    result = command(f"g++ -std=c++20 -Ofast -O3 {ROOT}/cmake/exact_math.cpp -o try && ./try", tmp_path)
    assert (result.status, result.out) == (0, "")


@pytest.mark.parametrize(
    "variable, flags, why, cure",
    [
        ("CXXFLAGS", "-O3 -ffast-math", FINITE, "remove -ffast-math and the like from CXXFLAGS"),
        ("LDFLAGS", "-ffast-math", SMALLEST, "remove -ffast-math and the like from CXXFLAGS, LDFLAGS"),
        (
            "CUDAFLAGS",
            "-use_fast_math",
            "rounds quotients, roots or small numbers wrongly on GPUs",
            "remove -ffast-math and the like from CUDAFLAGS",
        ),
        ("CUDAFLAGS", "-Xcompiler=-ffast-math", FINITE, "remove -ffast-math and the like from CUDAFLAGS"),
        ("CXXFLAGS", "-Ofast", "", ""),
    ],
)
def test_the_configuration(variable: str, flags: str, why: str, cure: str, tmp_path: pathlib.Path) -> None:
    cuda = variable == "CUDAFLAGS"
    configure = f"cmake --preset default -B {tmp_path}/build -DDIST_LESSON=1"
    if cuda and "CUDA: off" in command(f"{ROOT}/learn doctor").out:
        pytest.skip("no CUDA Toolkit")
    setting: Environment = {variable: flags}
    result = command(f"{configure} {'' if cuda else '-DDIST_CUDA=OFF'}", ROOT, **setting)
    assert (result.status != 0) == (why != ""), result
    said = " ".join(result.err.split())
    assert why in said and cure in said, said
