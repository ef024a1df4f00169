"""How many tests fit into the memory of this machine's GPUs at a time."""

from __future__ import annotations

import ctypes

GB = 10**9
OF_OTHERS = 1 * GB  # a desktop's, for example
OF_A_TEST = 3 * GB  # up to four ranks, each of which has a context, cuBLAS and NCCL


def smallest_gpu() -> int | None:
    """The bytes of the smallest GPU, or part of one, that CUDA shows to programs; None if there is no driver."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        total_memory = cuda.cuDeviceTotalMem_v2
    except (OSError, AttributeError):
        return None
    count, device, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return None
    sizes = []
    for place in range(count.value):
        if cuda.cuDeviceGet(ctypes.byref(device), place) != 0 or total_memory(ctypes.byref(total), device) != 0:
            return None
        sizes.append(total.value)
    return min(sizes, default=None)


def jobs(cores: int, memory: int | None) -> int:
    """The number for `ctest -j`. A test of several ranks counts as two jobs (PROCESSORS)."""
    by_cores = min(8, cores // 2 + 1)
    if memory is None:
        return by_cores
    return max(1, min(by_cores, 2 * ((memory - OF_OTHERS) // OF_A_TEST)))


if __name__ == "__main__":
    print(smallest_gpu())
