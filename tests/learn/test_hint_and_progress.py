"""./learn check, hint and solution, one after another, as a reader goes through the exercises."""

from course import FIRST, SECOND, Course
from programs import BUILD


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
    course.learn("", 0, "^1 of 5 parts of the trainer are yours")
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
