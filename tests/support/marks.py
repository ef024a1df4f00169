"""Marks of tests that need something of this machine or of this build."""
import pytest

from programs import CACHE, EMULATED, gpus_and_reason

emulated = pytest.mark.skipif(not EMULATED, reason="only emulated GPUs do this on request")
watched = pytest.mark.skipif("DIST_WATCH:BOOL=ON" not in CACHE, reason="the build has no watch")


def needs_a_gpu():
    """Says why there is none."""
    count, reason = gpus_and_reason()
    return pytest.mark.skipif(count == 0, reason=f"no GPU: {reason}")
