"""What ./learn doctor says of GPUs, CUDA and NCCL."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import tempfile
from collections.abc import Iterator

import tools_used
from build_folder import Build
from findings import Found, needed, note, ok, problem
from packages import install_line
from place import BUILD, ROOT
from tools_used import output_of

LEARN = shlex.quote(os.environ.get("LEARN_AS_TYPED") or "./learn")


def examine_gpu_memory() -> Iterator[Found]:
    settings = needed("ompi_info", "--parsable", "--all")
    if "mpi_built_with_cuda_support:value:true" in settings and ":opal_cuda_support:value:false" not in settings:
        yield ok("this Open MPI accepts GPU memory (it is CUDA-aware)")
    else:
        yield note(
            "this Open MPI does not accept GPU memory (it is not CUDA-aware), so the programs send through "
            "pinned host memory; NCCL is not affected"
        )


def count_gpus() -> int:
    return len(re.findall("^GPU", output_of(["nvidia-smi", "-L"])[1], re.M))


def cuda_status() -> str:
    """What the build uses, or would use if there were one."""
    if status := Build(BUILD).cached("DIST_CUDA_STATUS:INTERNAL"):
        return status
    with tempfile.TemporaryDirectory() as folder:
        compiler = f"-DCMAKE_CXX_COMPILER={os.environ.get('CXX') or 'c++'}"
        _, said = output_of(["cmake", compiler, "-P", str(ROOT / "cmake/TryCuda.cmake")], folder=folder)
    found = re.search("^CUDA: (.*)", said, re.M)
    return found[1] if found else ""


def nccl_version() -> str:
    """That of the headers; "" if there are none."""
    folders = [
        Build(BUILD).cached("NCCL_INCLUDE_DIR:PATH"),
        f"{os.environ.get('CUDA_HOME') or '/usr/local/cuda'}/include",
        "/usr/include",
    ]
    for folder in folders:
        try:
            text = pathlib.Path(folder, "nccl.h").read_text(errors="replace")
        except OSError:
            continue
        return ".".join(re.findall(r"^#define NCCL_(?:MAJOR|MINOR|PATCH) (\d+)", text, re.M))
    return ""


def examine_gpus() -> Iterator[Found]:
    gpus = count_gpus()
    if gpus == 0:
        yield note("no GPU: everything runs on the CPU")
    elif gpus < 4:
        yield note(
            f"{gpus} GPU(s): with more ranks than that, several ranks share a GPU and gradients travel through "
            "host memory",
            f"{LEARN} 5 -n {gpus}   # one GPU per rank, with NCCL",
        )
    else:
        yield ok(f"{gpus} GPUs")
    cuda = cuda_status()
    if cuda[:1].isdigit():
        yield ok(f"CUDA Toolkit {cuda}")
    elif cuda == "not found":
        yield note("no CUDA Toolkit: the programs are built for the CPU")
    else:
        yield note(f"CUDA: {cuda or 'not examined, because cmake did not say what it found'}")
    version = nccl_version()
    if version and tools_used.version_numbers(version) >= (2, 18):
        yield ok(f"NCCL {version}")
    elif version:
        yield problem(f"NCCL {version} is older than 2.18", install_line("libnccl2", "libnccl-dev"))
    elif gpus > 0:
        yield problem(
            "NCCL is not installed", f"{install_line('libnccl2', 'libnccl-dev')}   # from NVIDIA's repository"
        )
    else:
        yield note("no NCCL: it is not needed without a GPU")
