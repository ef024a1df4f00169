"""./learn test, bench, site and report."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from typing import NoReturn

from build_folder import Build
from console import Ended, Failed, say
from machine import end_with_us, need_folder
from packages import install
from place import BUILD, ROOT, TESTS, mpi_environment
from programs_run import at_most


def become(words: list[str], environment: dict[str, str], folder: pathlib.Path | None = None) -> NoReturn:
    """Goes on as this command, which gets our signals."""
    if folder:
        os.chdir(folder)
    os.execvpe(words[0], words, environment)


def python(script: str, *words: str) -> list[str]:
    return [sys.executable, "-B", str(ROOT / script), *words]


def environment_of_scripts() -> dict[str, str]:
    """Scripts import what is beside them, which PYTHONSAFEPATH would forbid."""
    return {name: value for name, value in mpi_environment().items() if name != "PYTHONSAFEPATH"}


def run_test(words: list[str]) -> int:
    tier, targets = ["-L", "quick"], ["quick_tests"]
    if words[:1] == ["--gpu"]:
        at_most(1, "test", words)
        Build(BUILD).targets(
            TESTS,
            "ddp_training",
            "send_recv",
            "broadcast",
            "all_reduce",
            "all_reduce_perf",
            "nccl_test",
            "lesson05_test",
        )
        become(python("tools/learn/on_gpus.py"), {**environment_of_scripts(), "DIST_BUILD": str(BUILD)})
    if words[:1] == ["--all"]:
        words, tier, targets = words[1:], [], []
    if words and not words[0].startswith("-"):
        at_most(0, "test", words)  # ctest would ignore them
    Build(BUILD).targets(TESTS, *targets)
    cores = len(os.sched_getaffinity(0))
    become(
        ["ctest", "-j", str(2 * cores), "--output-on-failure", "--no-tests=error", *tier, *words],  # most count as 2
        mpi_environment(),
        BUILD,
    )


def run_bench(words: list[str]) -> int:
    environment = environment_of_scripts()
    if {"-h", "--help"} & {*words}:
        become(python("bench/bench.py", *words), environment)
    # Refuses wrong flags before the first build.
    listed = subprocess.run(
        python("bench/bench.py", "--targets", *words), env=environment, text=True, stdout=subprocess.PIPE, check=False
    )
    if listed.returncode != 0:
        raise Ended(listed.returncode)
    Build(BUILD).targets(5, *listed.stdout.split())
    become(python("bench/bench.py", "--bin", f"{BUILD}/bin", *words), environment)


def run_site(words: list[str]) -> int:
    at_most(1, "site", words)
    folder = pathlib.Path(words[0] if words else BUILD / "site")
    ours = {".buildinfo", ".doctrees"}  # by Sphinx, the second as soon as it begins
    if folder.is_dir() and (names := {each.name for each in folder.iterdir()}) and not names & ours:
        raise Failed(f"site: {folder} has files that are not of a site; name a folder that does not exist yet")
    if not shutil.which("sphinx-build"):
        install(["python3-sphinx", "python3-myst-parser", "furo"])
        if not shutil.which("sphinx-build"):
            raise Failed("site: sphinx-build is not on the PATH")
    need_folder(folder)
    status = subprocess.run(
        [
            "sphinx-build",
            "-E",
            "-q",
            "-W",
            "--keep-going",
            "-c",
            f"{ROOT}/docs/site",
            "-b",
            "html",
            str(ROOT),
            str(folder),
        ],
        check=False,
        preexec_fn=end_with_us,
    ).returncode
    if status != 0:
        raise Ended(status)
    say(f"open {folder}/README.html")
    return 0


def run_report(words: list[str]) -> int:
    become(python("tools/learn/report.py", *words), environment_of_scripts())
