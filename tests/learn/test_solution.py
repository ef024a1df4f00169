"""./learn solution shows ours beside the reader's, and --take puts ours in its place."""

from course import FIRST, Course


def test_a_solution_is_shown_beside_the_readers_or_taken(course: Course) -> None:
    file = course.write(f"03_all_reduce/exercise/{FIRST}.hpp", "// mine\nnamespace dist::exercise {\nint mine;\n}\n")
    for words in (f"solution 3 {FIRST} --yes", f"--yes solution 3 {FIRST}"):
        said = course.learn(words, 0, "^// yours$", "^int mine;$", "^// ours$")
        assert said.index("int mine;") < said.index("// ours") < said.index("inline void")
    mine = file.read_text()
    for kept in ("yours1", "yours2"):
        course.learn(f"solution 3 {FIRST} --take", 0, f"yours is kept in 03_all_reduce/exercise/{FIRST}.hpp.{kept}$")
        assert file.with_name(f"{FIRST}.hpp.{kept}").read_text() == mine
        mine = file.read_text()
        assert f"Yours is in {FIRST}.hpp.{kept}." in mine and f"inline void {FIRST}(" in mine
    course.learn("solution 3 --take", 2, "^error: solution: --take needs the name of one exercise")
