"""Every answer of ./learn check, hint and solution, and what becomes of the build folder, in a copy of the
course. Known solutions replace the reader's. Nothing is compiled: a fake cmake says whether it
would have succeeded."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from programs import BUILD, MPI_ENVIRONMENT, ROOT, command

pytestmark = pytest.mark.quick

FIRST, SECOND = "ring_reduce_scatter", "ring_all_reduce"  # lesson 3's exercises in the copy
PARTS = {"01_send_recv": ["exchange", "ring_shift"], "02_broadcast": ["tree_broadcast"],
         "03_all_reduce": [FIRST, SECOND], "04_distributed_sampler": ["my_indices"],
         "05_ddp_training": ["sync_gradients"]}


class Course:
    """A copy of the course as in a fresh clone, whatever the reader has written."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("learn", "tools/learn", "tools/exercises", *PARTS):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, folder / name)
        for lesson, parts in PARTS.items():
            for part in parts:
                self.write(f"{lesson}/exercise/{part}.hpp", "  not_started();  // replace this\n")
        toml = "tools/exercises/03_all_reduce/exercises.toml"
        tables = re.split(r"^(?=\[)", (folder / toml).read_text(), flags=re.M)
        self.write(toml, "".join(table for table in tables if table.startswith((f"[{FIRST}]", f"[{SECOND}]"))))
        self.write("build/build.ninja", "")
        self.cache(folder)
        self.cmake("exit 0")
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

    def cmake(self, script):
        self.program("path/cmake", f'[ "$1" != --version ] || exec {shutil.which("cmake")} "$1"\n{script}')

    def cache(self, checkout, generator="Ninja"):
        """The cache of a build that was configured for `checkout`."""
        self.write("build/CMakeCache.txt", "DIST_LESSON:STRING=5\nDIST_TESTS:BOOL=ON\n"
                   f"CMAKE_GENERATOR:INTERNAL={generator}\n"
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
    course.cmake('echo "$*" >>cmake.log')
    course.learn("1 -n 1", 0, "^it runs$")
    assert "--preset" not in (course.folder / "cmake.log").read_text()


@pytest.mark.parametrize("cache, reason", [
    (("/usr",), "it belongs to the checkout /usr"),
    ((".", "Unix Makefiles"), "it is not for Ninja"),
    (("",), "its CMakeCache.txt is damaged")])
def test_a_build_that_cannot_be_used_is_configured_anew(cache, reason, course):
    course.cmake('echo "$*" >>cmake.log')
    course.cache(*cache)
    course.learn("doctor", 1, f"build cannot be used: {reason}$")
    course.learn("LEARN_PRESET=cpu ./learn 1 -n 1", 0, f"configured anew: {reason}$", learn="env")
    assert re.search("--fresh .*--preset cpu", (course.folder / "cmake.log").read_text())


@pytest.mark.parametrize("output, reason", [
    ("CMake Error: Could not read presets from /a: b", "Could not read presets from /a: b"),
    ("-- x\nCMake Error: CMake cannot find ninja\nor make\n-- y", "CMake cannot find ninja or make"),
    ("CMake Error at a b.txt:3 (f):\n  It\n  rains.\nCall Stack:", r"It rains\."),
    ("cmake: cannot open libx.so", "cmake: cannot open libx.so")])
def test_the_reason_why_it_cannot_be_configured(output, reason, course):
    (course.folder / "build/CMakeCache.txt").rename(course.folder / "build/CMakeFiles")
    course.write("output", output)
    course.cmake("cat output; exit 1")
    for _ in range(2):
        said = course.learn("1", 2, rf"^error: cmake cannot configure .*\.log\): {reason} ?$")
        assert said.startswith("configuring\nerror: ")


@pytest.mark.parametrize("tool, script, row", [
    ("cmake", "exit 1", r"problem  .*/path/cmake: it says nothing\n +fix: export PATH=/.*:\$PATH"),
    ("c++", "echo no libc >&2; exit 1", r"problem  .*/c\+\+: no libc"),
    ("mpirun", "echo HYDRA build details:", "problem  .*/mpirun: is not Open MPI: HYDRA build details:"),
    ("mpirun", """[ "$1" != --version ] || exec echo Open MPI; [ "$OMPI_MCA_x" ] || exec echo verified
     echo ----; echo; echo It cannot; exit 1""",
     r"problem  two ranks .* OMPI_MCA_x.*: It cannot\n +fix: unset .*OMPI_MCA_x.*"),
    ("awk", "echo odd >&2; exit 1", "note     not checked: packages: odd"),
    ("nproc", "echo odd", "note     not checked: plain mpirun: it says nothing"),
    ("df", "echo odd >&2; exit 1", "note     not checked: shared memory: odd")])
def test_doctor_examines_a_machine_with_an_odd_tool(tool, script, row, course):
    course.program(f"path/{tool}", script)
    course.program("build/bin/send_recv", "echo verified")
    course.environment["OMPI_MCA_x"] = "y"
    summary = ("no problems found" if row.startswith("note") else r"problems to fix: \d")
    course.learn("doctor", int(row.startswith("problem")), f"^{row}$", rf"^{summary}(; not .*)?$")


def test_an_old_cmake_is_refused_with_the_line_that_replaces_it(course):
    course.program("path/cmake", "echo cmake version 3.22.1")
    course.cache("/usr")
    course.learn("1", 2, r"^error: .*/path/cmake: cmake version 3.22.1 is older than 3.25; type this: .*PATH$")


def test_a_link_to_the_launcher_works(course):
    (course.folder / "path/link").symlink_to(course.folder / "learn")
    course.learn("1 -n 1", 0, "^it runs$", learn="path/link")


def test_a_path_that_ninja_misreads_is_refused(tmp_path):
    Course(tmp_path / "it's").learn("1", 2, "^error: the path .* move the course")


def test_two_at_once_build_in_turn(course):
    for pipe in ("started", "go"):
        os.mkfifo(course.folder / pipe)
    course.cmake("echo >started; cat go")
    first = course.start("1 -n 1")
    (course.folder / "started").read_text()
    course.cmake("exit 0")  # for the second
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
    said = course.learn("solution 3", 0, f"^{FIRST} is not done. You have not seen 2 of its hints",
                        f"^{SECOND} is not done. You have not seen 2 of its hints")
    assert "send_recv" not in said

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
    course.learn("solution 3", 0, f"^inline void {FIRST}\\(", f"^{SECOND} is not done")
    course.learn(f"solution 3 {SECOND} --yes", 0, f"^inline void {SECOND}\\(")

    course.solve(SECOND, "no-division")
    course.learn(f"check 3 {SECOND}", 1, f"^{SECOND} +base +wrong on 4 ranks: "
                 r".* \[shares\]$")
    course.solve(SECOND, "reference")
    said = course.learn("check 3", 0, f"^{SECOND} +base +done$")
    assert "\x1b" not in said  # no colour in a pipe
    course.learn("hint 3", 0, "^lesson 3: every exercise is done")
    course.learn("check", 3, "^lesson 1:$", "^exchange +base +not started")
    course.learn("", 0, "^1 of 5 parts of the trainer are yours")
    for name in ("exchange", "ring_shift"):  # alone, check goes on to the first that is not done
        course.write(f"01_send_recv/exercise/{name}.hpp", "  // solved\n")
        course.program(f"build/bin/exercise_01_{name}",  # quick_tests builds the solutions of lesson 3 only
                       f'exec {BUILD}/tests/solutions_03 --solution {FIRST}/reference "$@"')
    said = course.learn("check", 3, "^exchange +base +done", "^ring_shift +base +done", "^lesson 2:$", " not started ")
    assert said.count("lesson 1:") == 2 and said.count("not started") == 1

    course.solve(SECOND, "mpi")
    course.learn(f"check 3 {SECOND}", 1, r"wrong.*\[messages\]")
    course.learn("", 0, " exercises 1/2 ")  # one that no longer passes is no longer done


def test_a_solution_is_shown_beside_the_readers_or_taken(course):
    file = course.write(f"03_all_reduce/exercise/{FIRST}.hpp", "// mine\nnamespace dist::exercise {\nint mine;\n}\n")
    said = course.learn(f"solution 3 {FIRST} --yes", 0, "^// yours$", "^int mine;$", "^// ours$")
    assert said.index("int mine;") < said.index("// ours") < said.index("inline void")
    mine = file.read_text()
    for kept in ("yours1", "yours2"):
        course.learn(f"solution 3 {FIRST} --take", 0, f"yours is kept in 03_all_reduce/exercise/{FIRST}.hpp.{kept}$")
        assert file.with_name(f"{FIRST}.hpp.{kept}").read_text() == mine
        mine = file.read_text()
        assert f"Yours is in {FIRST}.hpp.{kept}." in mine and f"inline void {FIRST}(" in mine
    course.learn("solution 3 --take", 2, "^error: solution: --take needs the name of one exercise")


@pytest.mark.parametrize("solution, trainer, status, pattern", [
    ("mpi", "echo it trains", 1, rf"^{SECOND}: wrong.*\[messages\]"),
    ("reference", "echo it trains", 0, "^it trains$"),
    ("reference", "exit 86", 1, "^WRONG: the trainer ended with status 86")])
def test_mine_checks_the_parts_and_trains(solution, trainer, status, pattern, course):
    course.solve(SECOND, solution)
    course.program("build/bin/my_ddp_training", trainer)
    course.learn("mine -n 2", status, pattern)


def test_a_solution_that_does_not_compile_is_wrong(course):
    course.solve(SECOND, "reference")
    course.cmake(f'echo "/x/03_all_reduce/exercise/{SECOND}.hpp:3:4: error: expected"; exit 1')
    course.learn(f"check 3 {SECOND}", 1, "wrong: it does not compile",
                 f"^ +03_all_reduce/exercise/{SECOND}.hpp:3: expected$", "compiler.s words are in .*build.log")


@pytest.mark.parametrize("typed, status, answer", [
    ("????", 3, "not started  03_all_reduce/exercise/which_chunk.txt$"),
    ("0112", 0, "done$"),
    ("011?", 1, "wrong: 3 of 4 are right; the one that is not:\n  rank 2 completes chunk: no number yet\n"
     "  hint: ./learn hint 3 which_chunk$"),
    ("02??", 1, "wrong: 1 of 4 is right; the first that is not:\n  rank 3, step 2, sends chunk: not 2\n"
     "  hint: rank 3 sends chunk 2 at step 1"),
    ("0b??", 1, "wrong: 1 of 4 is right; the first that is not:\n  rank 3, step 2, sends chunk: 'b' is not a number\n"
     "  hint: type one number"),
    ("01 2", 1, "wrong: a line is missing:\n  rank 0, step 3, sends chunk: [?]\n  hint: type this line again in")])
def test_a_small_task_is_judged_at_once(typed, status, answer, course):
    toml = "tools/exercises/03_all_reduce/exercises.toml"
    course.write(toml, (ROOT / toml).read_text())
    course.cmake("exit 1")  # nothing is built
    table = re.search(r"(?<=\[which_chunk\.answers\]\n)[^\[]*", (ROOT / toml).read_text())[0]
    questions = re.findall('^"(.*)" = ', table, re.M)
    lines = [f"{question}: {number}" for question, number in zip(questions, typed, strict=True) if number != " "]
    course.write("03_all_reduce/exercise/which_chunk.txt", "\n".join(["Some words.", *lines]))
    said = course.learn("check 3 which_chunk", status, f"^which_chunk +numbers +{answer}")
    assert max(map(len, said.splitlines())) <= 96


def test_a_small_task_is_judged_without_reading_from_the_terminal(course):
    name = "02_broadcast/exercise/who_has_it.txt"
    course.write(name, (ROOT / name).read_text().replace("?", "4"))
    reader, writer = os.pipe()  # as a terminal at which nobody types
    try:
        result = subprocess.run(["./learn", "check", "2", "who_has_it"], cwd=course.folder, env=course.environment,
                                stdin=reader, capture_output=True, text=True, timeout=20)
    finally:
        os.close(reader), os.close(writer)
    assert result.returncode == 1 and "wrong: 2 of 5 are right" in result.stdout, result


def test_ctrl_c_while_judging_prints_nothing(course):
    course.program("path/mpirun", "kill -INT 0; exec sleep 60")  # to all processes, as a terminal does
    result = command(f"setsid -w env --default-signal=INT {ROOT}/tools/exercises/judge.py true",
                     PATH=course.environment["PATH"])
    assert result == (130, "", "")


def test_the_messages_of_the_run_that_is_wrong_are_kept(tmp_path):
    result = command(f"EXERCISE_RANKS='2 3' {ROOT}/tools/exercises/judge.py {BUILD}/tests/solutions_03 "
                     "--solution ring_reduce_scatter/leftward --trace kept.json", tmp_path)
    assert result.status == 1 and "wrong on 3 ranks" in result.out
    events = json.loads((tmp_path / "kept.json").read_text())["traceEvents"]
    place = {0: 1, 1: 0, 2: 2}  # of the world's ranks, in the communicator that is judged
    sent = {(place[event["pid"]], place[event["args"]["to"]]) for event in events if "to" in event.get("args", {})}
    assert sent == {(0, 2), (2, 1), (1, 0)}  # to the left, and none of ours, which are drawn beside them


def test_watch_waits_for_a_file_that_an_editor_replaces(course):
    course.program("path/sleep", "echo polled; exec /bin/sleep 0.1")
    file = course.folder / f"03_all_reduce/exercise/{FIRST}.hpp"
    job = course.start("check 3 --watch")
    assert any("judged at" in line for line in job.stdout)
    file.rename(course.folder / "x")
    assert [job.stdout.readline() for _ in range(3)] == ["polled\n"] * 3
    (course.folder / "x").rename(file)
    assert any("judged at" in line for line in job.stdout)
    job.kill()
    job.communicate()


@pytest.mark.parametrize("words, error", [
    ("1 -n 0", "-n: must be a positive number of ranks, not '0'"),
    ("check 6", "check: needs a lesson"),
    ("check 3 x", "check: lesson 3 has no exercise 'x'"),
    ("hint 3 x", "hint: lesson 3 has no exercise 'x'"),
    ("check 3 x y", "check: unexpected words: y"), ("hint 3 x y z", "hint: unexpected words: y z"),
    ("doctor --fix", "doctor: unexpected words: --fix"), ("test quick", "test: unexpected words: quick"),
    ("help x", "help: unexpected words: x"), ("map x", "map: unexpected words: x"),
    ("mine -n 2 x", "x: unknown flag"), ("break 1 list x", "break: unexpected words: x")])
def test_what_does_not_exist_is_refused(words, error, course):
    course.learn(words, 2, f"^error: {error}")


@pytest.mark.parametrize("folder, reason", [
    ("/", "it contains the course"), (".", "it contains the course"), ("other", "it is a build of x"),
    ("tools", "it has files, but none of CMake.s"), ("/proc/x", "cannot be written; set")])
def test_only_a_build_folder_is_built_into(folder, reason, course):
    course.write("other/CMakeCache.txt", "CMAKE_PROJECT_NAME:STATIC=x\n")
    course.learn(f"LEARN_BUILD_DIR={folder} ./learn 1", 2, f"^error: /.*{reason}", learn="env")
