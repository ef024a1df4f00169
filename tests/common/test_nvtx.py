"""With a profiler, the scopes that have names are ranges of NVTX. (Without one, no other test sees any.)"""

import re

import pytest
from programs import BUILD, runs

PROFILER = BUILD / "tests/libprofiler.so"
JOB = "ddp_training --device cpu --dataset synthetic --samples 64 --layers 20,9,5 --classes 5 --max-steps 2"


@pytest.mark.skipif(not PROFILER.exists(), reason="the build is without NVTX")
def test_scopes_are_ranges_of_a_profiler() -> None:
    said = runs(1, JOB, NVTX_INJECTION64_PATH=str(PROFILER)).err
    events = re.findall(r"^profiler: (.*)$", said, re.M)
    assert events[0] == "domain mpi-to-ddp" and events.count(events[0]) == 1
    begun = [event.removeprefix("begin ") for event in events if event.startswith("begin ")]
    assert begun.count("forward") >= 2 and begun.count("backward") == 2
    assert sum(text.startswith("all_reduce: bucket 0: ") for text in begun) == 2
    assert events.count("end") == len(begun)
    # On one rank, without overlap, the all-reduce of the only bucket is within backward.
    first = events.index("begin backward")
    assert events[first + 1].startswith("begin all_reduce: bucket 0: "), events[first:]
