"""What ./learn does with the build folder: reuses it, configures it anew, refuses it, builds in turn."""

import os
import pathlib
import re
import shutil
import signal

import pytest
from course import Course


def test_an_up_to_date_build_is_not_configured(course: Course) -> None:
    course.cmake('echo "$*" >>cmake.log')
    course.learn("1 -n 1", 0, "^it runs$")
    assert "--preset" not in (course.folder / "cmake.log").read_text()


@pytest.mark.parametrize(
    "level, words, status, commands",  # the level of the build folder that is there; 0: none is
    [
        (
            0,
            "1 -n 2 -- --strict -n 3",
            3,
            [
                "-B .*/build --preset default -DDIST_LESSON=1 -DDIST_TESTS=OFF",
                "--target send_recv",
                "mpirun -np 2 .*/build/bin/send_recv --strict -n 3",
            ],
        ),
        (1, "5", 3, ["-DDIST_LESSON=5 -DDIST_TESTS=OFF", "--target ddp_training", "mpirun -np 4 .*/bin/ddp_training"]),
        (5, "perf 3", 3, ["--target all_reduce_perf", "mpirun -np 4 .*/bin/all_reduce_perf"]),
        (
            6,
            "break 2 root-only -n 3",
            3,
            ["--target broken_broadcast", "mpirun -np 3 .*/bin/broken/broadcast root-only"],
        ),
        (6, "mine", 1, ["--target my_ddp_training", "mpirun -np 4 .*/bin/my_ddp_training"]),
        (5, "test", 8, ["-DDIST_LESSON=5 -DDIST_TESTS=ON", "--target quick_tests", "ctest .* -L quick"]),
        (6, "test -R watch -j 2", 8, ["--target quick_tests", "ctest .* -L quick -R watch -j 2"]),
        (6, "test --all -LE quick", 8, ["--build .*/build", "ctest (?!.*-L quick).* -LE quick"]),
        (6, "test --gpu", 1, ["--target ddp_training .*", "mpirun -np 1 .*/bin/ddp_training --device cuda .*"]),
        (
            6,
            "check 5 nccl_average",
            0,
            [
                "-B .*/build-emulated --preset emulated -DDIST_LESSON=5 .*",
                "--build .*/build-emulated --target exercise_05_nccl_average",
            ],
        ),
        (6, "site", 2, ["sphinx-build .*-W .*/build/site"]),
    ],
)
def test_what_is_configured_built_and_run_and_whose_status_it_is(
    level: int, words: str, status: int, commands: list[str], course: Course
) -> None:
    log = course.folder / "log"
    for tool, its in ("mpirun", 3), ("ctest", 8), ("sphinx-build", 2):
        course.program(
            f"path/{tool}", f'[ "$1" != --version ] || exec echo Open MPI\necho {tool} $* >>{log}; exit {its}'
        )
    course.cmake(f"echo cmake $* >>{log}")
    course.write("05_ddp_training/exercise/nccl_average.hpp", "  // solved\n")
    course.program("tools/exercises/judge.py", "echo done")
    cache = course.folder / "build/CMakeCache.txt"
    if level == 0:
        shutil.rmtree(cache.parent)
    elif level < 6:
        cache.write_text(cache.read_text().replace("LESSON:STRING=5", f"LESSON:STRING={level}").replace("=ON", "=OFF"))
    course.learn(words, status)
    ran = log.read_text().splitlines()
    assert len(ran) == len(commands) and all(re.search(f"{each}$", line) for each, line in zip(commands, ran)), ran


@pytest.mark.parametrize(
    "cache, reason",
    [
        (("/usr",), "it belongs to the checkout /usr"),
        ((".", "Unix Makefiles"), "it is not for Ninja"),
        ((".", "Ninja", "/usr"), "it is a copy of /usr"),
        (("",), "its CMakeCache.txt is damaged"),
    ],
)
def test_a_build_that_cannot_be_used_is_configured_anew(cache: tuple[str, ...], reason: str, course: Course) -> None:
    course.cmake('echo "$*" >>cmake.log')
    course.cache(*cache)
    course.learn("doctor", 1, f"build cannot be used: {reason}$")
    course.learn("LEARN_PRESET=cpu ./learn 1 -n 1", 0, f"configured anew: {reason}$", learn="env")
    assert re.search("--fresh .*--preset cpu", (course.folder / "cmake.log").read_text())


@pytest.mark.parametrize(
    "output, reason",
    [
        ("CMake Error: Could not read presets from /a: b", "Could not read presets from /a: b"),
        ("-- x\nCMake Error: CMake cannot find ninja\nor make\n-- y", "CMake cannot find ninja or make"),
        ("CMake Error at a b.txt:3 (f):\n  It\n  rains.\nCall Stack:", r"It rains\."),
        ("cmake: cannot open libx.so", "cmake: cannot open libx.so"),
    ],
)
def test_the_reason_why_it_cannot_be_configured(output: str, reason: str, course: Course) -> None:
    (course.folder / "build/CMakeCache.txt").rename(course.folder / "build/CMakeFiles")
    course.write("output", output)
    course.cmake("cat output; exit 1")
    for _ in range(2):
        said = course.learn("1", 2, rf"^error: cmake cannot configure .*\.log\): {reason} ?$")
        assert said.startswith("configuring\nerror: ")


def test_an_old_cmake_is_refused_with_the_line_that_replaces_it(course: Course) -> None:
    course.program("path/cmake", "echo cmake version 3.22.1")
    course.cache("/usr")
    course.learn("1", 2, r"^error: .*/path/cmake: cmake version 3.22.1 is older than 3.25; type this: .*PATH$")


@pytest.mark.parametrize("tool", ["mpicxx", "mpirun"])
def test_half_of_another_mpi_is_refused_with_the_line_that_replaces_it(tool: str, course: Course) -> None:
    course.program(f"path/{tool}", 'case "$*" in *-dM*) echo "#define MPICH_VERSION 4";; *) echo HYDRA 4.0.2;; esac')
    course.cache("/usr")
    course.learn(
        "1", 2, rf"^error: .*/path/{tool}: is not Open MPI's, but MPICH's; type this: export PATH=/usr/bin:\$PATH$"
    )


def test_a_link_to_the_launcher_works(course: Course) -> None:
    (course.folder / "path/link").symlink_to(course.folder / "learn")
    course.learn("1 -n 1", 0, "^it runs$", learn="path/link")


def test_a_path_that_ninja_misreads_is_refused(tmp_path: pathlib.Path) -> None:
    Course(tmp_path / "it's").learn("1", 2, "^error: the path .* move the course")


def test_two_at_once_build_in_turn(course: Course) -> None:
    for pipe in ("started", "go"):
        os.mkfifo(course.folder / pipe)
    course.cmake("echo >started; cat go")
    first = course.start("1 -n 1")
    (course.folder / "started").read_text()
    course.cmake("exit 0")  # for the second
    second = course.start("1 -n 1")
    assert second.stdout and second.stdout.readline() == "waiting for another ./learn, which builds send_recv\n"
    lock = (course.folder / ".learn/lock").stat().st_ino
    while not re.search(f"-> FLOCK .*:{lock} ", pathlib.Path("/proc/locks").read_text()):
        assert second.poll() is None, "it does not wait"
    (course.folder / "go").write_text("")
    for job in (first, second):
        assert "\nit runs\n" in job.communicate(timeout=120)[0]
        assert job.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_build_keeps_others_waiting_after_its_launcher_was_killed(number: int, course: Course) -> None:
    for pipe in ("started", "go"):
        os.mkfifo(course.folder / pipe)
    course.cmake("echo >started; cat go; echo built >built")
    first = course.start("1 -n 1")
    (course.folder / "started").read_text()
    first.send_signal(number)
    assert first.wait() == -number
    course.cmake("cat built")  # which fails if the first one has not ended
    second = course.start("1 -n 1")
    assert second.stdout and second.stdout.readline() == "waiting for another ./learn, which builds send_recv\n"
    (course.folder / "go").write_text("")
    assert "\nit runs\n" in second.communicate(timeout=120)[0]
    assert second.returncode == 0


def test_a_log_of_another_user_is_named(course: Course) -> None:
    (course.folder / ".learn/build.log").mkdir(parents=True)
    course.learn("1 -n 1", 2, r"^error: /.*/\.learn/build\.log cannot be written \(Is a directory\); remove it$")


@pytest.mark.parametrize(
    "folder, reason",
    [
        ("/", "it contains the course"),
        (".", "it contains the course"),
        ("other", "it is a build of x"),
        ("tools", "it has files, but none of CMake.s"),
        ("/proc/x", "cannot be written; set"),
    ],
)
def test_only_a_build_folder_is_built_into(folder: str, reason: str, course: Course) -> None:
    course.write("other/CMakeCache.txt", "CMAKE_PROJECT_NAME:STATIC=x\n")
    course.learn(f"LEARN_BUILD_DIR={folder} ./learn 1", 2, f"^error: /.*{reason}", learn="env")
