"""The course's launcher: it sets up, builds, runs and tests the course. It only runs cmake, mpirun and ctest
commands that can also be typed by hand (docs/running.md). ../../learn starts it with any python3."""

import os
import sys

if sys.version_info < (3, 9):
    sys.stderr.write(
        "error: ./learn needs Python 3.9 or newer, but %s is %d.%d; put a newer python3 first on the PATH\n"
        % ((sys.executable,) + sys.version_info[:2])
    )
    sys.exit(2)
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
sys.pycache_prefix = os.path.join(os.path.dirname(os.path.dirname(HERE)), ".learn", "pycache")
os.environ.setdefault("HOME", os.path.expanduser("~"))  # without which Open MPI 5 does not start

from cli import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
