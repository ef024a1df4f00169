"""A rank without memory ends the job and says so; libraries that can do without are told."""

import pathlib
import re

import pytest
from programs import HIDE_GPUS, SANITIZED, Result, command, watched


def with_memory(mib: int, program: str) -> Result:
    """Two ranks, of which rank 1 has only so many addresses. The limit is on addresses, of which CUDA
    needs more than any machine has memory."""
    return command(
        f"""exec mpirun -np 2 sh -c 'test $OMPI_COMM_WORLD_RANK = 0 ||
                   ulimit -v {mib << 10}; exec $BIN/{program} --timeout 0'""",
        **HIDE_GPUS,
    )


def smallest_that_loads(program: str) -> int:
    """In MiB, to 20 of them: less does not hold all libraries, which are more with CUDA's."""
    low, high = 0, 4000
    while high - low > 20:
        middle = (low + high) // 2
        result = with_memory(middle, program)
        if "failed to map segment from shared object" in result.out + result.err:
            low = middle
        else:
            high = middle
    return high


@pytest.mark.skipif(SANITIZED, reason="sanitizers need more addresses than the limit leaves")
@pytest.mark.parametrize("program", ["ddp_training --max-steps 2", "all_reduce_perf --max-bytes 65536 --iterations 2"])
def test_a_rank_without_memory_ends_the_job_and_says_so(program: str) -> None:
    """Whichever allocation fails first (MPI's, a thread's, oneDNN's or ours)."""
    smallest = smallest_that_loads(program)
    failed = []
    # How much more a run needs depends on the chip: the libraries take larger buffers for some.
    for mib in range(smallest - 20, smallest + 2000, 20):
        result = with_memory(mib, program)
        if result.status != 0:
            failed.append(result)
        elif mib >= smallest + 180:
            break
    else:
        pytest.fail(f"no run ended well with up to {mib} MiB")
    for result in failed:
        # The sentence is ours, the dynamic loader's, or that of a library that checks.
        assert re.search(
            r"\] fatal: out of memory: |failed to map segment from shared object|Cannot allocate memory",
            result.out + result.err,
        ), result
        assert result.status != 124 and "exited on signal" not in result.err, result.err
    assert any("[rank 1] fatal: out of memory: " in result.err for result in failed)


@watched
@pytest.mark.skipif(SANITIZED, reason="the allocator is the sanitizer's")
@pytest.mark.parametrize(
    "library, when, status",
    [("libcudart_probe.so", "later", 0), ("libcudart_probe.so", "loading", 1), ("libother.so", "later", 1)],
)
def test_a_library_of_cuda_is_told_that_memory_ran_out_and_others_end_the_rank(
    tmp_path: pathlib.Path, library: str, when: str, status: int
) -> None:
    """CUDA's check what they get, but not while they are being loaded."""
    (tmp_path / "probe.c").write_text("""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <sys/resource.h>
        static void probe(const char* now) {
          struct rlimit before, small;
          if (strcmp(getenv("WHEN"), now) != 0 || getrlimit(RLIMIT_AS, &before)) return;
          small = before;
          small.rlim_cur = 1UL << 30;
          setrlimit(RLIMIT_AS, &small);
          void* volatile memory = malloc(1UL << 32);
          void* mapped = mmap(0, 1UL << 32, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          setrlimit(RLIMIT_AS, &before);
          if (memory || mapped != MAP_FAILED) abort();
        }
        __attribute__((constructor)) static void loading(void) { probe("loading"); }
        int MPI_Finalize(void) {  // instead of the watch's
          probe("later");
          return ((int (*)(void))dlsym(RTLD_NEXT, "MPI_Finalize"))();
        }""")
    built = command(f"cc -shared -fPIC -o {library} probe.c", tmp_path)
    assert built.status == 0, built.err
    result = command(
        f"mpirun -np 1 sh -c 'WHEN={when} LD_PRELOAD=./{library} exec $BIN/send_recv --device cpu'", tmp_path
    )
    assert result.status == status, result.err
    assert status == 0 or "fatal: out of memory: 4294967296 bytes" in result.err
