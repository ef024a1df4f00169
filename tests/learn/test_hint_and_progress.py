"""./learn check, hint and solution, one after another, as a reader goes through the exercises."""

import re

import pytest
from course import FIRST, SECOND, Course
from programs import BUILD, command

from place import LESSONS


def test_the_way_of_a_reader(course: Course) -> None:
    course.learn("check 3", 3, f"^{FIRST} +base +not started +03_all_reduce/exercise/")
    course.learn("", 0, "everybody.s tensors .* exercises 0/2 ")
    course.learn("hint 3", 0, f"^{FIRST}, hint 1 of 4:")
    course.learn("hint 3", 0, f"^{FIRST}, hint 2 of 4:")
    course.learn(f"hint 3 {SECOND}", 0, f"^{SECOND}, hint 1 of 3:")
    said = course.learn(
        "solution 3",
        0,
        f"^{FIRST} is not done. You have not seen 2 of its hints",
        f"^{SECOND} is not done. You have not seen 2 of its hints",
    )
    assert "send_recv" not in said

    course.solve(FIRST, "blocking-send")
    course.learn("check 3", 1, r"^ +hang: rank 0 in MPI_Send to 1 .*cycle 0 -> 1", "^ +hint: MPI_Send may wait")
    course.solve(FIRST, "reference")
    course.learn(
        "check 3",
        3,
        f"^{FIRST} +base +done$",
        "^  on 4 ranks, yours / right: most bytes sent by a rank 12000 / 12000, most messages sent by a rank 3 / 3$",
        f"compare with the lesson.s own: {FIRST} in ",
    )
    course.learn("", 0, " exercises 1/2 ")
    course.learn("hint 3", 0, f"^{SECOND}, hint 2 of 3:")
    course.learn("solution 3", 0, f"^inline void {FIRST}\\(", f"^{SECOND} is not done")
    course.learn(f"solution 3 {SECOND} --yes", 0, f"^inline void {SECOND}\\(")

    course.solve(SECOND, "no-division")
    course.learn(
        f"check 3 {SECOND}",
        1,
        f"^{SECOND} +base +wrong on 4 ranks: "
        r".* \[shares\]$",
    )
    course.solve(SECOND, "reference")
    said = course.learn("check 3", 0, f"^{SECOND} +base +done$")
    assert "\x1b" not in said  # no colour in a pipe
    course.learn("hint 3", 0, "^lesson 3: every exercise is done")
    course.learn("check", 3, "^lesson 1:$", "^exchange +base +not started")
    course.learn("", 0, "^1 of 8 parts of the trainer are yours")
    for name in ("exchange", "ring_shift"):  # alone, check goes on to the first that is not done
        course.write(f"01_send_recv/exercise/{name}.hpp", "  // solved\n")
        course.program(
            f"build/bin/exercise_01_{name}",  # quick_tests builds the solutions of lesson 3 only
            f'exec {BUILD}/tests/solutions_03 --solution {FIRST}/reference "$@"',
        )
    said = course.learn("check", 3, "^exchange +base +done", "^ring_shift +base +done", "^lesson 2:$", " not started ")
    assert said.count("lesson 1:") == 2 and said.count("not started") == 1

    course.solve(SECOND, "mpi")
    course.learn(f"check 3 {SECOND}", 1, r"wrong.*\[messages\]")
    course.learn("", 0, " exercises 1/2 ")  # one that no longer passes is no longer done


@pytest.mark.parametrize("typed", [FIRST, FIRST.replace("_", "-"), f"03_all_reduce/exercise/{FIRST}.hpp"])
def test_an_exercise_that_has_a_name_of_its_own_needs_no_lesson(typed: str, course: Course) -> None:
    course.learn(f"check {typed}", 3, f"^{FIRST} +base +not started ")
    course.learn(f"hint {typed}", 0, f"^{FIRST}, hint 1 of ")
    course.learn(f"solution {typed} --yes", 0, f"^// {FIRST}$", "^// ours$")
    course.learn(f"check 3 {typed}", 3, f"^{FIRST} ")


def test_a_hint_alone_is_for_the_next_exercise_and_a_solution_counts_what_was_seen(course: Course) -> None:
    listed = re.findall(r"^(\d) (\w+)", command("tools/exercises/exercises.py list", course.folder).out, re.M)
    course.write(".learn/progress", "".join(f"done 0{n}/{name}\n" for n, name in listed if name != FIRST))
    course.learn("hint", 0, f"^{FIRST}, hint 1 of ")
    hints = int(re.findall(r"hint 2 of (\d)", course.learn("hint", 0))[0])
    course.learn(f"solution {FIRST}", 0, f"You have not seen {hints - 2} of its hints")
    for _ in range(hints - 1):  # all, and the first again
        last = course.learn("hint", 0)
    assert f"you have seen all {hints} hints; starting again" in last and "hint 1 of" in last
    course.learn(f"solution {FIRST}", 0, "You have seen all of its hints")


@pytest.mark.parametrize(
    "program, done, first_lesson, following",
    [
        ("broadcast", "", "not built exercises 0/2 +advanced 0/2", "1"),
        ("send_recv", "ping_pong", "built +exercises 0/2 +advanced 1/2", "check 1"),
        ("send_recv", "exchange ring_shift", "built +exercises 2/2 +advanced 0/2", "2"),
    ],
)
def test_the_map_shows_what_there_is_and_names_the_next_step(
    program: str, done: str, first_lesson: str, following: str, course: Course
) -> None:
    (course.folder / "build/bin/send_recv").unlink()
    course.program(f"build/bin/{program}", "echo it runs")
    course.write(".learn/progress", "".join(f"done 01/{name}\n" for name in done.split()))
    course.learn("", 0, f"^  1 .* {first_lesson} +01_send_recv/README.md$", rf"^next: \./learn {following} ")


def test_when_everything_is_done_the_tests_are_next_and_hints_begin_again(course: Course) -> None:
    listed = re.findall(
        r"^(\d) (\w+) (?!finale)", command("tools/exercises/exercises.py list", course.folder).out, re.M
    )
    lines = [f"done 0{lesson}/{name}" for lesson, name in listed] + [f"hint 03/{SECOND} 3"]
    course.write(".learn/progress", "\n".join(lines))
    course.learn("", 0, "^0 of 8 parts of the trainer are yours")  # what is a stub again does not count
    for path in course.folder.glob("0?_*/exercise/*.hpp"):
        if not path.name.startswith("gpt_"):
            path.write_text("// solved\n")
    for lesson in LESSONS:
        course.program(f"build/bin/{lesson.program}", "echo it runs")
    course.learn("", 0, "advanced 4/4 +05_", "^8 of 8 parts of the trainer are yours", r"^next: \./learn test ")
    course.learn("check", 0, "^every exercise is done$")
    assert "gpt_windows" not in course.learn("solution 5", 0, "^// overlap$")  # judged only by its name
    course.learn("check gpt_windows", 3, "^gpt_windows +finale +not started ")
    again = f"^{SECOND}: you have seen all 3 hints; starting again with the first\n{SECOND}, hint 1 of 3:$"
    course.learn(f"hint 3 {SECOND}", 0, again)
