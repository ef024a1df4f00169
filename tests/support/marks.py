"""Marks of tests that need something of this build."""

import pytest
from programs import CACHE, EMULATED

emulated = pytest.mark.skipif(not EMULATED, reason="only emulated GPUs do this on request")
watched = pytest.mark.skipif(bool(CACHE) and "DIST_WATCH:BOOL=ON" not in CACHE, reason="the build has no watch")
built = pytest.mark.skipif(not CACHE, reason="nothing is built yet (./learn test)")
