"""Without a CUDA toolkit that works, the build is for the CPU and says why; with one, for the cards here."""

import os
import pathlib
import re
import shutil

import pytest
from course import with_cards
from programs import ROOT, Environment, command


def with_cuda(words: str, folder: pathlib.Path, script: str) -> str:
    """The output, in one line, of a command that finds this script in place of four nvccs."""
    folders = {name: f"{folder}/{name}" for name in ["CUDACXX", "PATH", "CUDA_PATH", "CUDA_HOME"]}
    for nvcc in (folder / name / "bin/nvcc" for name in folders):
        nvcc.parent.mkdir(parents=True, exist_ok=True)
        nvcc.write_text("#!/bin/sh\n" + script)
        nvcc.chmod(0o755)
    environment: Environment = {
        **folders,
        "CUDACXX": f"{folder}/CUDACXX/bin/nvcc",
        "CUDAHOSTCXX": "",
        "PATH": f"{folder}/PATH/bin:{os.environ['PATH']}",
        "LEARN_BUILD_DIR": f"{folder}/build",
    }
    result = command(words, folder, **environment)
    return " ".join((result.out + result.err).split())


OLD = "echo release 11.8"

IS_OLD = r"CUDA 11\.8 \(.*/PATH/bin/nvcc\) is older than 12\.0: for GPUs, set CUDACXX "


@pytest.mark.parametrize(
    "unset, script, fault",
    [
        ("NOTHING", "touch try.o", r"/CUDACXX/bin/nvcc cannot .*\(.*undefined reference.*\): "),
        ("CUDACXX", OLD, IS_OLD),
        ("CUDACXX PATH", "exec /missing/nvcc", r"/CUDA_PATH/bin/nvcc .*\(.*/missing/nvcc: not found\): "),
        ("CUDACXX PATH CUDA_PATH", "exit 3", r"/CUDA_HOME/bin/nvcc .*\(exit status 3\): .* CUDAHOSTCXX "),
        ("CUDACXX", "echo note; echo 'h:9: error: #error -- no GNU x; y'; exit 1", r"\(no GNU x\): "),
        ("CUDACXX", "echo 'nvcc fatal   : Could not open it'; exit 1", r"\(Could not open it\): "),
    ],
)
def test_a_cuda_toolkit_that_does_not_work(unset: str, script: str, fault: str, tmp_path: pathlib.Path) -> None:
    said = with_cuda(
        f"unset {unset}; {shutil.which('cmake')} -DCMAKE_CXX_COMPILER=c++ -P {ROOT}/cmake/TryCuda.cmake",
        tmp_path,
        script,
    )
    assert re.search(f"^CUDA: off .*{fault}.* and remove the build folder$", said), said


def test_the_build_without_a_cuda_toolkit_that_works(tmp_path: pathlib.Path) -> None:
    configure = f"unset CUDACXX; cmake -S {ROOT} -B build -DDIST_LESSON=1 -DDIST_CUDA="
    said = with_cuda(configure + "ON", tmp_path, OLD)
    assert re.search("CMake Error .* DIST_CUDA=ON, but " + IS_OLD, said), said
    said = with_cuda(configure + "AUTO && grep -rh 'DIST_WITH_CUDA 0' build/generated", tmp_path, OLD)
    assert re.search(f"-- CUDA: off .*{IS_OLD}.*; NCCL: off .*DIST_WITH_CUDA 0", said), said
    assert re.search("note CUDA: off .*" + IS_OLD, with_cuda(f"{ROOT}/learn doctor", tmp_path, OLD))


# CUDAARCHS, the cards that are found, and the architectures for which nvcc compiles: sm_N is for
# cards N, and compute_N can be compiled on newer ones.
@pytest.mark.parametrize(
    "asked, cards, compiled",
    [
        ("", [], ["sm_75", "sm_80", "sm_90", "compute_90"]),
        ("", ["9.0", "8.0"], ["sm_90", "sm_80", "compute_75"]),
        ("86-real", ["9.0"], ["sm_86"]),
    ],
)
def test_device_code_is_for_the_cards_and_can_be_compiled_for_others(
    asked: str, cards: list[str], compiled: list[str], tmp_path: pathlib.Path
) -> None:
    configure = f"cmake --preset default -B {tmp_path}/build -DDIST_TESTS=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
    result = command(configure, ROOT, CUDAARCHS=asked, PATH=with_cards(tmp_path, *cards))
    assert result.status == 0, result.err
    if off := re.search("^-- CUDA: (off|not found).*", result.out, re.M):
        pytest.skip(off[0])
    commands = (tmp_path / "build/compile_commands.json").read_text()
    codes = {code for each in re.findall(r",code=\[?([\w,]+)", commands) for code in each.split(",")}
    assert {*compiled} <= codes and not any(code.startswith("sm_") for code in codes - {*compiled}), codes
