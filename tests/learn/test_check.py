"""./learn check: small tasks, mine, --watch, --trace, and what does not compile or exist."""

import json
import os
import pathlib
import re
import subprocess
import types
from typing import Any, NoReturn

import pytest
from course import FIRST, SECOND, Course
from programs import BUILD, ROOT, command

import exercise_words
from console import Failed
from judging import Judge


@pytest.mark.parametrize(
    "solution, trainer, status, pattern",
    [
        ("mpi", "echo it trains", 1, rf"^{SECOND}: wrong.*\[messages\]"),
        ("reference", "echo it trains", 0, "^it trains$"),
        ("reference", "exit 86", 1, "^WRONG: the trainer ended with status 86"),
    ],
)
def test_mine_checks_the_parts_and_trains(
    solution: str, trainer: str, status: int, pattern: str, course: Course
) -> None:
    course.solve(SECOND, solution)
    course.program("build/bin/my_ddp_training", trainer)
    course.learn("mine -n 2", status, pattern)


def test_a_model_that_is_missing_or_does_not_compile(course: Course) -> None:
    course.learn("mine --model none.cpp", 1, "^error: mine: --model: there is no file none.cpp$")
    course.learn("mine --model", 2, "^error: mine: --model needs a file$")
    course.write("mine.cpp", "class YourModel;")
    course.cmake(f'echo "{course.folder}/mine.cpp:3:4: error: oops"; exit 1')
    course.learn("mine --model mine.cpp", 1, "^error: mine: --model: mine.cpp does not compile: line 3: oops ")
    course.cmake('echo "my_model.hpp:3:4: error: YourModel"; exit 1')
    course.learn("mine --model mine.cpp", 1, "does not compile: it needs a class YourModel, as your_model.cpp has it ")


def test_a_solution_that_does_not_compile_is_wrong(course: Course) -> None:
    course.solve(SECOND, "reference")
    course.cmake(f'echo "/x/03_all_reduce/exercise/{SECOND}.hpp:3:4: error: expected"; exit 1')
    course.learn(
        f"check 3 {SECOND}",
        1,
        "wrong: it does not compile",
        f"^ +03_all_reduce/exercise/{SECOND}.hpp:3: expected$",
        "compiler.s words are in .*build.log",
    )


@pytest.mark.parametrize("words, status", [("1", 1), (f"check 3 {FIRST}", 2)])
def test_a_build_that_fails_for_a_reason_that_is_not_the_readers_is_shown(
    words: str, status: int, course: Course
) -> None:
    course.solve(FIRST, "reference")
    course.cmake("echo ninja: error: no rule; exit 1")
    course.learn(words, status, "^ninja: error: no rule$", "^error: command failed: cmake --build ")


@pytest.mark.parametrize(
    "words, judge, status, said",
    [
        ("mine -n 2", 'echo "wrong on $EXERCISE_RANKS ranks"; exit 1', 1, f"^{SECOND}: wrong on 2 ranks$"),
        (
            f"check 3 {SECOND}",
            "echo not started; exit 3",
            3,
            f"^{SECOND} +base +waits for a function that it calls, and that is not written yet ",
        ),
        (
            f"check 3 {SECOND}",
            "echo 'not judged: not finished after 180 s (this machine is busy: load 99)'; exit 4",
            4,
            f"^{SECOND} +base +not judged: not finished after 180 s .*\n +from this run, nobody can tell",
        ),
        ("mine -n 2", "echo not judged: busy; exit 4", 4, f"^{SECOND}: not judged: busy$"),
    ],
)
def test_what_the_judge_is_asked_and_answers(words: str, judge: str, status: int, said: str, course: Course) -> None:
    course.solve(SECOND, "reference")
    course.program("tools/exercises/judge.py", judge)
    course.learn(words, status, said)


def test_an_exercise_that_calls_one_that_is_not_written_waits_for_it(course: Course) -> None:
    course.write(f"03_all_reduce/exercise/{SECOND}.hpp", f"// written\n{FIRST}(comm, data);\n")
    course.program("tools/exercises/judge.py", "echo not started; exit 3")
    course.learn(
        f"check 3 {SECOND}", 3, f"^{SECOND} +base +waits for {FIRST}, which it calls: ./learn check 3 {FIRST} "
    )


def test_watch_judges_again_only_what_was_saved(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[list[str]] = []

    def check_all(exercises: list[Any], _: object) -> None:
        judged.append([each.name for each in exercises])
        if len(judged) == 2:
            raise KeyboardInterrupt

    def save(_: float) -> None:
        file = course.folder / f"03_all_reduce/exercise/{SECOND}.hpp"
        file.write_text("// saved\n")
        os.utime(file, (1, 1))

    every = [
        types.SimpleNamespace(name=name, file=course.folder / f"03_all_reduce/exercise/{name}.hpp")
        for name in (FIRST, SECOND)
    ]
    for name, what in {
        "ROOT": course.folder,
        "check_all": check_all,
        "chosen": lambda *_: every,
        "say": lambda _: None,
    }.items():
        monkeypatch.setattr(exercise_words, name, what)
    monkeypatch.setattr(exercise_words.time, "sleep", save)
    with pytest.raises(KeyboardInterrupt):
        exercise_words.watch(["3"], Judge())
    assert judged == [[FIRST, SECOND], [SECOND]]


@pytest.mark.parametrize("first, second, status", [(4, 1, 1), (1, 4, 1), (4, 0, 4), (0, 4, 4), (4, 3, 4), (3, 0, 3)])
def test_of_several_exercises_the_worst_gives_the_status(first: int, second: int, status: int, course: Course) -> None:
    for name in FIRST, SECOND:
        course.solve(name, "reference")
    course.program("tools/exercises/judge.py", f'case "$1" in *{FIRST}) exit {first};; *) exit {second};; esac')
    course.learn("check 3", status)


def test_what_was_not_judged_stays_done_or_not(course: Course) -> None:
    course.solve(SECOND, "reference")
    course.program("tools/exercises/judge.py", "echo done")
    course.learn(f"check 3 {SECOND}", 0)
    course.program("tools/exercises/judge.py", "echo not judged; exit 4")
    course.learn(f"check 3 {SECOND}", 4)
    course.learn(f"solution 3 {SECOND}", 0, "return|ring")


def test_an_exercise_whose_file_is_gone_is_named(course: Course) -> None:
    (course.folder / f"03_all_reduce/exercise/{FIRST}.hpp").unlink()
    course.learn("check 3", 2, f"^error: /.*/03_all_reduce/exercise/{FIRST}.hpp is missing$")


@pytest.mark.parametrize(
    "words, status, shown",
    [("check 3", 3, "\x1b[33mnot started\x1b[0m"), ("1", 0, "a line that is overwritten")],
)
def test_colours_and_progress_are_for_a_terminal(words: str, status: int, shown: str, course: Course) -> None:
    course.program("path/mpirun", '[ -z "$LEARN_TERMINAL" ] || echo a line that is overwritten')
    spawn = f"import pty, sys; sys.exit(pty.spawn({['./learn', *words.split()]}) >> 8)"
    course.program("path/on_a_terminal", f'exec python3 -c "{spawn}"')
    course.environment.pop("NO_COLOR", None)
    assert shown not in course.learn(words, status)
    assert shown in course.learn("", status, learn="path/on_a_terminal")
    course.environment["NO_COLOR"] = "1"
    assert "\x1b" not in course.learn("", status, learn="path/on_a_terminal")


def test_what_the_compiler_warned_of_is_said_until_the_file_is_compiled_again(course: Course) -> None:
    course.solve(SECOND, "mpi")
    said = rf"the compiler warns: 03_all_reduce/exercise/{SECOND}.hpp:3: unused variable"
    compiled = 'echo "[1/2] x_adapter.cpp.o"'
    course.cmake(f'{compiled}; echo "/x/03_all_reduce/exercise/{SECOND}.hpp:3:4: warning: unused variable"')
    course.learn(f"check 3 {SECOND}", 1, said)
    course.cmake("echo ninja: no work to do.")
    course.learn(f"check 3 {SECOND}", 1, said)
    course.cmake(compiled)
    assert "the compiler warns" not in course.learn(f"check 3 {SECOND}", 1)


@pytest.mark.parametrize(
    "typed, status, answer",
    [
        ("????", 3, "not started  03_all_reduce/exercise/which_chunk.txt$"),
        ("4112", 0, "done$"),
        (
            "411?",
            1,
            "wrong: 3 of 4 are right; the one that is not:\n  rank 2 completes chunk: no number yet\n"
            "  hint: ./learn hint 3 which_chunk$",
        ),
        (
            "42??",
            1,
            "wrong: 1 of 4 is right; the first that is not:\n  rank 4, step 3, sends chunk: not 2\n"
            "  hint: rank 4 sends chunk 2 at step 2",
        ),
        (
            "4b??",
            1,
            "wrong: 1 of 4 is right; the first that is not:\n  rank 4, step 3, sends chunk: 'b' is not a number\n"
            "  hint: type one number",
        ),
        ("41 2", 1, "wrong: a line is missing:\n  rank 0, step 4, sends chunk: [?]\n  hint: type this line again in"),
    ],
)
def test_a_small_task_is_judged_at_once(typed: str, status: int, answer: str, course: Course) -> None:
    toml = "tools/exercises/03_all_reduce/exercises.toml"
    course.write(toml, (ROOT / toml).read_text())
    course.cmake("exit 1")  # nothing is built
    table = re.search(r"(?<=\[which_chunk\.answers\]\n)[^\[]*", (ROOT / toml).read_text())
    assert table
    questions = re.findall('^"(.*)" = ', table[0], re.M)
    assert len(questions) == len(typed)
    lines = [f"{question}: {number}" for question, number in zip(questions, typed) if number != " "]
    course.write("03_all_reduce/exercise/which_chunk.txt", "\n".join(["Some words.", *lines]))
    said = course.learn("check 3 which_chunk", status, f"^which_chunk +numbers +{answer}")
    assert max(map(len, said.splitlines())) <= 96


def test_a_small_task_is_judged_without_reading_from_the_terminal(course: Course) -> None:
    name = "02_broadcast/exercise/who_has_it.txt"
    course.write(name, (ROOT / name).read_text().replace("?", "4"))
    reader, writer = os.pipe()  # as a terminal at which nobody types
    try:
        result = subprocess.run(
            ["./learn", "check", "2", "who_has_it"],
            cwd=course.folder,
            env=course.environment,
            stdin=reader,
            capture_output=True,
            text=True,
            timeout=20,
        )
    finally:
        os.close(reader)
        os.close(writer)
    assert result.returncode == 1 and "wrong: 2 of 5 are right" in result.stdout, result


def test_ctrl_c_while_judging_prints_nothing(course: Course) -> None:
    course.program("path/mpirun", "kill -INT 0; exec sleep 60")  # to all processes, as a terminal does
    result = command(
        f"setsid -w env --default-signal=INT {ROOT}/tools/exercises/judge.py true", PATH=course.environment["PATH"]
    )
    assert result == (130, "", "")


def test_the_messages_of_the_run_that_is_wrong_are_kept(tmp_path: pathlib.Path) -> None:
    result = command(
        f"EXERCISE_RANKS='2 3' {ROOT}/tools/exercises/judge.py {BUILD}/tests/solutions_03 "
        "--solution ring_reduce_scatter/leftward --trace kept.json",
        tmp_path,
    )
    assert result.status == 1 and "wrong on 3 ranks" in result.out
    events = json.loads((tmp_path / "kept.json").read_text())["traceEvents"]
    place = {0: 1, 1: 0, 2: 2}  # of the world's ranks, in the communicator that is judged
    sent = {(place[event["pid"]], place[event["args"]["to"]]) for event in events if "to" in event.get("args", {})}
    assert sent == {(0, 2), (2, 1), (1, 0)}  # to the left, and none of ours, which are drawn beside them


def test_watch_waits_for_a_file_that_an_editor_replaces(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    file = course.folder / f"03_all_reduce/exercise/{FIRST}.hpp"
    kept = file.with_name("kept")
    events: list[str] = []

    def wait(_: float) -> None:
        """What an editor does while nothing is judged, each time that the watch looks."""
        events.append("waited")
        if len(events) == 2:
            file.rename(kept)
        elif not file.exists() and events[-2:] == ["waited", "waited"]:
            kept.write_text(f"// changed {len(events)}\n")
            kept.rename(file)

    def judged(*_: object) -> None:
        assert file.exists()
        events.append("judged")
        if events.count("judged") == 2:  # it is replaced while it is judged
            file.rename(kept)
            raise Failed("it is missing")
        if events.count("judged") == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(exercise_words, "ROOT", course.folder)
    monkeypatch.setattr(exercise_words, "check", judged)
    monkeypatch.setattr(exercise_words.time, "sleep", wait)
    monkeypatch.setattr(exercise_words, "say", lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        exercise_words.watch(["3"], Judge())
    assert events[0] == "judged" == events[-1] and events.count("waited") >= 4

    def fails(*_: object) -> NoReturn:
        raise Failed("cmake is missing")

    monkeypatch.setattr(exercise_words, "check", fails)
    with pytest.raises(Failed):  # and no file was replaced
        exercise_words.watch(["3"], Judge())


@pytest.mark.parametrize(
    "words, error",
    [
        ("1 -n 0", "-n: must be a positive number of ranks, not '0'"),
        ("1 -n 1e3", "-n: must be a positive number of ranks, not '1e3'"),
        ("1 -n 123456", "-n: must be a positive number of ranks, not '123456'"),
        ("perf 4", "perf: needs a lesson from 1 to 3"),
        ("check 6", "check: needs a lesson"),
        ("check 6 --watch", "check: needs a lesson"),
        ("solution", "solution: needs a lesson from 1 to 5, or the name of an exercise"),
        ("check ring_al_reduce", "check: there is no exercise 'ring_al_reduce'; did you mean ring_all_reduce\\?$"),
        (
            "hint 3 ring-al-reduce",
            "hint: lesson 3 has no exercise 'ring-al-reduce'; did you mean ring_all_reduce\\? Its",
        ),
        (
            "check 2 ring_all_reduce",
            "check: lesson 2 has no exercise 'ring_all_reduce'; lesson 3 has it. Its exercises are: ",
        ),
        ("check 3 --wach", "check: --wach: unknown flag; did you mean --watch\\?"),
        ("solution 3 --tak", "solution: --tak: unknown flag; did you mean --take\\?"),
        ("break 1 trunkate", "break: lesson 1 has no experiment 'trunkate'; did you mean truncate\\? ./learn break 1 "),
        ("break 1 x", "break: lesson 1 has no experiment 'x'; ./learn break 1 lists them"),
        (
            "more tensor_paralel",
            "more: 'tensor_paralel' is not one of: .* gpt; did you mean tensor_parallel\\?",
        ),
        ("help --wach", "--wach: no word of ./learn has this flag; did you mean --watch\\?"),
        ("check 3 x", f"check: lesson 3 has no exercise 'x'; its exercises are: {FIRST} {SECOND}$"),
        ("hint 3 x", "hint: lesson 3 has no exercise 'x'"),
        ("check 3 x y", "check: unexpected words: y"),
        ("hint 3 x y z", "hint: unexpected words: y z"),
        ("doctor --fix", "doctor: unexpected words: --fix"),
        ("test quick", "test: unexpected words: quick"),
        ("test --gpu x", "test: unexpected words: x"),
        ("help x", "x: no such command"),
        ("map x", "map: unexpected words: x"),
        ("mine -n 2 x", "x: unknown flag"),
        ("break 1 list x", "break: unexpected words: x"),
        ("site tools", "site: tools has files that are not of a site; name a folder"),
        ("site x y", "site: unexpected words: y"),
    ],
)
def test_what_does_not_exist_is_refused(words: str, error: str, course: Course) -> None:
    course.learn(words, 2, f"^error: {error}")
