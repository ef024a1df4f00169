"""A rank without memory ends the job and says so; libraries that can do without are told."""

import pathlib
import re

import pytest
from marks import watched
from programs import HIDE_GPUS, SANITIZED, command


@pytest.mark.skipif(SANITIZED, reason="sanitizers need more addresses than the limit leaves")
def test_a_rank_without_memory_ends_the_job_and_says_so() -> None:
    """Whichever allocation fails first (MPI's, a thread's, oneDNN's or ours). The limit is on
    addresses, of which CUDA needs more than any machine has memory."""
    results = [
        command(
            f"""exec mpirun -np 2 sh -c 'test $OMPI_COMM_WORLD_RANK = 0 ||
                       ulimit -v {mib << 10}; exec $BIN/{program} --timeout 0'""",
            **HIDE_GPUS,
        )
        for program in ("ddp_training --max-steps 2", "all_reduce_perf --max-bytes 65536 --iterations 2")
        for mib in range(40, 340, 20)
    ]  # the smallest do not hold all libraries
    failed = [result for result in results if result.status != 0]
    for result in failed:
        # The sentence is ours, the dynamic loader's, or that of a library that checks.
        assert re.search(
            r"\] fatal: out of memory: |failed to map segment from shared object"
            "|Cannot allocate memory",
            result.out + result.err,
        ), result
        assert result.status != 124 and "exited on signal" not in result.err, result.err
    assert any("[rank 1] fatal: out of memory: " in result.err for result in failed)
    assert len(failed) < len(results)


@watched
@pytest.mark.skipif(SANITIZED, reason="the allocator is the sanitizer's")
@pytest.mark.parametrize("library, status", [("libcudart_probe.so", 0), ("libother.so", 1)])
def test_a_library_of_cuda_is_told_that_memory_ran_out_and_others_end_the_rank(
    tmp_path: pathlib.Path, library: str, status: int
) -> None:
    (tmp_path / "probe.c").write_text("""
        #include <stdlib.h>
        #include <sys/mman.h>
        #include <sys/resource.h>
        __attribute__((constructor)) static void probe(void) {
          struct rlimit before, small;
          if (!getenv("OMPI_COMM_WORLD_RANK") || getrlimit(RLIMIT_AS, &before)) return;
          small = before;
          small.rlim_cur = 1UL << 30;
          setrlimit(RLIMIT_AS, &small);
          void* volatile memory = malloc(1UL << 32);
          void* mapped = mmap(0, 1UL << 32, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          setrlimit(RLIMIT_AS, &before);
          if (memory || mapped != MAP_FAILED) abort();
        }""")
    built = command(f"cc -shared -fPIC -o {library} probe.c", tmp_path)
    assert built.status == 0, built.err
    result = command(f"mpirun -np 1 -x LD_PRELOAD=./{library} $BIN/send_recv --device cpu", tmp_path)
    assert result.status == status, result.err
    assert status == 0 or "fatal: out of memory: 4294967296 bytes" in result.err
