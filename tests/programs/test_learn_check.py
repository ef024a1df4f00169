"""Every answer of ./learn check and hint, and what becomes of the build folder, in a copy of the
course. Known solutions replace the reader's. Nothing is compiled: a fake cmake says whether it
would have succeeded."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from programs import BUILD, MPI_ENVIRONMENT, ROOT

FIRST, SECOND = "ring_reduce_scatter", "ring_all_reduce"  # lesson 3's exercises in the copy
PARTS = {"01_send_recv": ["ring_shift"], "02_broadcast": ["tree_broadcast"],
         "03_all_reduce": [FIRST, SECOND], "04_distributed_sampler": ["my_indices"],
         "05_ddp_training": ["sync_gradients"]}


class Course:
    """A copy of the course as in a fresh clone, whatever the reader has written."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("learn", "tools/learn", "tests/exercises/judge", *PARTS):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, folder / name)
        for lesson, parts in PARTS.items():
            for part in parts:
                self.write(f"{lesson}/exercise/{part}.hpp", "  not_started();  // replace this\n")
        self.write("03_all_reduce/exercise/exercises.txt", f"{FIRST} base one\n{SECOND} base two\n")
        self.write("build/build.ninja", "")
        self.cache(folder)
        self.program("path/cmake", "exit 0")
        self.program("build/bin/send_recv", "echo it runs")
        self.environment = {**MPI_ENVIRONMENT, **os.environ,
                            "PATH": f"{folder}/path:{os.environ['PATH']}"}
        self.environment.pop("LEARN_BUILD_DIR", None)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def program(self, name, script):
        self.write(name, f"#!/bin/sh\n{script}\n").chmod(0o755)

    def cache(self, checkout):
        """The cache of a build that was configured for `checkout`."""
        self.write("build/CMakeCache.txt", "DIST_LESSON:STRING=5\nDIST_TESTS:BOOL=ON\n"
                   f"CMAKE_HOME_DIRECTORY:INTERNAL={checkout}\n"
                   f"CMAKE_CACHEFILE_DIR:INTERNAL={checkout}/build\n")

    def solve(self, exercise, solution):
        """Pretends that the reader has written this solution."""
        self.write(f"03_all_reduce/exercise/{exercise}.hpp", "  // solved\n")
        self.program(f"build/bin/exercise_03_{exercise}",
                     f'exec {BUILD}/tests/solutions_03 --solution {exercise}/{solution} "$@"')

    def start(self, words, learn="./learn"):
        return subprocess.Popen([learn, *words.split()], cwd=self.folder, env=self.environment,
                                text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    def learn(self, words, status, *patterns, **options):
        """Checks the exit status, and that a line matches each pattern."""
        job = self.start(words, **options)
        said, _ = job.communicate(timeout=120)
        assert job.returncode == status, said
        for pattern in patterns:
            assert re.search(pattern, said, re.M), f"no line matches {pattern}\n{said}"
        return said


@pytest.fixture
def course(tmp_path):
    return Course(tmp_path)


def test_an_up_to_date_build_is_not_configured(course):
    course.program("path/cmake", 'echo "$*" >>cmake.log')
    course.learn("1 -n 1", 0, "^it runs$")
    assert "--preset" not in (course.folder / "cmake.log").read_text()


def test_a_build_of_another_checkout_is_configured_anew(course):
    course.program("path/cmake", 'echo "$*" >>cmake.log')
    course.cache("/usr")
    course.learn("doctor", 1, "build cannot be used: .* /usr$")
    course.learn("1 -n 1", 0, "configured anew: .* checkout /usr$")
    assert "--fresh" in (course.folder / "cmake.log").read_text()


def test_a_damaged_cache_is_noticed(course):
    (course.folder / "build/CMakeCache.txt").write_bytes(b"\0\1garbage")
    course.learn("1 -n 1", 0, "configured anew: its CMakeCache.txt is damaged$")


def test_a_link_to_the_launcher_works(course):
    (course.folder / "path/link").symlink_to(course.folder / "learn")
    course.learn("1 -n 1", 0, "^it runs$", learn="path/link")


def test_a_path_that_ninja_misreads_is_refused(tmp_path):
    Course(tmp_path / "it's").learn("1", 2, "^error: the path .* move the course")


def test_two_at_once_build_in_turn(course):
    for pipe in ("started", "go"):
        os.mkfifo(course.folder / pipe)
    course.program("path/cmake", "echo >started; cat go")
    first = course.start("1 -n 1")
    (course.folder / "started").read_text()
    course.program("path/cmake", "exit 0")  # for the second
    second = course.start("1 -n 1")
    assert second.stdout.readline() == "waiting for another ./learn, which builds send_recv\n"
    lock = (course.folder / ".learn/lock").stat().st_ino
    while not re.search(f"-> FLOCK .*:{lock} ", pathlib.Path("/proc/locks").read_text()):
        assert second.poll() is None, "it does not wait"
    (course.folder / "go").write_text("")
    for job in (first, second):
        assert "\nit runs\n" in job.communicate(timeout=120)[0]
        assert job.returncode == 0


def test_the_way_of_a_reader(course):
    course.learn("check 3", 3, f"^{FIRST} +base +not started +03_all_reduce/exercise/")
    course.learn("", 0, "everybody.s tensors .* exercises 0/2 ")
    course.learn("hint 3", 0, f"^{FIRST}, hint 1 of 4:")
    course.learn("hint 3", 0, f"^{FIRST}, hint 2 of 4:")
    course.learn(f"hint 3 {SECOND}", 0, f"^{SECOND}, hint 1 of 3:")

    course.solve(FIRST, "blocking-send")
    course.learn("check 3", 1, r"^ +hang: rank 0 in MPI_Send to 1 .*cycle 0 -> 1",
                 "^ +hint: MPI_Send may wait")
    course.solve(FIRST, "reference")
    course.learn("check 3", 3, f"^{FIRST} +base +done$",
                 "^  on 4 ranks, yours / right: most bytes sent by a rank 12000 / 12000, "
                 "most messages sent by a rank 3 / 3$",
                 f"compare with the lesson.s own: {FIRST} in ")
    course.learn("", 0, " exercises 1/2 ")
    course.learn("hint 3", 0, f"^{SECOND}, hint 2 of 3:")

    course.solve(SECOND, "no-division")
    course.learn(f"check 3 {SECOND}", 1, f"^{SECOND} +base +wrong: on 4 ranks, this check fails: "
                 r".* \[shares\]$")
    course.solve(SECOND, "reference")
    said = course.learn("check 3", 0, f"^{SECOND} +base +done$")
    assert "\x1b" not in said  # no colour in a pipe
    course.learn("hint 3", 0, "^lesson 3: every exercise is done")
    course.learn("", 0, "^1 of 5 parts of the trainer are yours")

    course.solve(SECOND, "mpi")
    course.learn(f"check 3 {SECOND}", 1, r"wrong: .*\[messages\]")
    course.learn("", 0, " exercises 1/2 ")  # one that no longer passes is no longer done


@pytest.mark.parametrize("solution, trainer, status, pattern", [
    ("mpi", "echo it trains", 1, rf"^{SECOND}: wrong: .*\[messages\]"),
    ("reference", "echo it trains", 0, "^it trains$"),
    ("reference", "exit 86", 1, "^WRONG: the trainer ended with status 86")])
def test_mine_checks_the_parts_and_trains(solution, trainer, status, pattern, course):
    course.solve(SECOND, solution)
    course.program("build/bin/my_ddp_training", trainer)
    course.learn("mine -n 2", status, pattern)


def test_a_solution_that_does_not_compile_is_wrong(course):
    course.solve(SECOND, "reference")
    course.program("path/cmake", f'echo "{SECOND}.hpp:3:4: error: expected"; exit 1')
    course.learn(f"check 3 {SECOND}", 1, "wrong: it does not compile", "hpp:3:4: error: expected")


@pytest.mark.parametrize("words, error", [
    ("1 -n 0", "-n: must be a positive number of ranks"),
    ("check 6", "check: needs a lesson"),
    ("check 3 x", "check: lesson 3 has no exercise 'x'"),
    ("hint 3 x", "hint: lesson 3 has no exercise 'x'")])
def test_what_does_not_exist_is_refused(words, error, course):
    course.learn(words, 2, f"^error: {error}")
