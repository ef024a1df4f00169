"""./learn test --gpu runs no more tests at a time than the memory of the smallest GPU holds."""

import pathlib
import sys

import pytest
from programs import command

from gpu_memory import GB, jobs
from place import ROOT

DRIVER = """
#include <stddef.h>
static const size_t sizes[] = {SIZES};
int cuInit(unsigned flags) { return STATUS; }
int cuDeviceGetCount(int* count) { *count = sizeof sizes / sizeof *sizes; return 0; }
int cuDeviceGet(int* device, int place) { *device = place; return 0; }
int cuDeviceTotalMem_v2(size_t* bytes, int device) { *bytes = sizes[device]; return 0; }
"""


@pytest.mark.parametrize(
    "sizes, status, found", [("16000000000, 9663676416", 0, "9663676416"), ("16000000000", 100, "None")]
)
def test_the_smallest_gpu_that_the_driver_shows(sizes: str, status: int, found: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "driver.c").write_text(DRIVER.replace("SIZES", sizes).replace("STATUS", str(status)))
    assert command("cc -shared -fPIC -o libcuda.so.1 driver.c", tmp_path).status == 0
    said = command(f"LD_LIBRARY_PATH={tmp_path} {sys.executable} {ROOT}/tools/learn/gpu_memory.py", tmp_path)
    assert said.out == f"{found}\n", said.err


@pytest.mark.parametrize(
    "cores, memory, wanted",
    [
        (16, None, 8),
        (2, None, 2),
        (16, 140 * GB, 8),
        (16, 24 * GB, 8),
        (16, 15 * GB, 8),
        (16, 10 * GB, 6),
        (4, 5 * GB, 2),
    ]
    + [(16, 3 * GB, 1)],
)
def test_small_gpus_run_fewer_tests_at_a_time(cores: int, memory: int | None, wanted: int) -> None:
    assert jobs(cores, memory) == wanted
