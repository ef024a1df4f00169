#!/usr/bin/env python3
"""The exercises: what is known of each, for ./learn, for the build and for tests.

    exercises.py list                      a line per exercise: LESSON NAME KIND part|- WHAT
    exercises.py hints LESSON NAME         a line per hint
    exercises.py solution LESSON NAME WIDTH  the reader's solution and ours, side by side if WIDTH allows
    exercises.py take LESSON NAME          puts ours in place, and keeps the reader's beside it
    exercises.py yours LESSON NAME FILE    writes the program that judges the reader's solution
    exercises.py adapter LESSON NAME FILE  ... and the file that gives it the solution
    exercises.py known LESSON FILE [NAME]  ... that judges known solutions, of all exercises or of NAME
    exercises.py stubs LESSON FILE NAME... ... that compiles only if the reader's files of these exercises do
    exercises.py parts ROOT FOLDER         writes what ./learn mine includes, with the model in $MY_MODEL
    exercises.py state LESSON NAME         what is known without building it: exits with 0 (done), 1 (wrong),
                                           3 (not started) or 4 (it must be built and judged)
    exercises.py errors LESSON NAME LOG    the first of the compiler's errors in LOG, in words
    exercises.py fit                       whether each row of a NAME_changes.toml fits its reference

LESSON is a number or a folder. An exercise NAME consists of these files, LL being its lesson's folder:

    LL/exercise/NAME.hpp                   the stub, whose comment is the contract; the reader edits it
    tools/exercises/LL/exercises.toml      a table [NAME]:
        kind      base, advanced, nccl (judged in the emulated build) or finale (judged only if it is named)
        what      it does, in a few words
        function  the type of its function
        hints     from the first to the last
        part      true if ./learn mine trains with it
        draws     true if its messages can be shown beside ours: there is a drawn_NAME(function)
    tools/exercises/LL/NAME_solutions.hpp  our solution and other known ones (see `known_solutions`)
    tools/exercises/LL/NAME_changes.toml   those that are ours but for a few lines (see `changed`)
    tools/exercises/LL/*_checks.cpp        checks_of_NAME(function): what a right solution does; drawn_NAME

A small task of kind numbers has LL/exercise/NAME.txt, in which the reader types numbers after questions
that end with a colon, and in its table, instead of `function`, answers = { question = number }. With
hints_if = { question = { number = hint } }, a wrong number can have a hint of its own.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
import re
import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    try:
        import tomli as tomllib
    except ImportError:
        sys.exit("error: Python is older than 3.11 and has no tomli (Debian: python3-tomli)")

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from beside import beside  # noqa: E402
from compile_errors import in_words  # noqa: E402
from numbers_task import judge_numbers  # noqa: E402
from source_text import is_started  # noqa: E402

ROOT = HERE.parents[1]
TO_BE_JUDGED = 4  # state(): not known without building it
LESSONS = sorted(path.parent.name for path in HERE.glob("*/exercises.toml"))


@dataclasses.dataclass(frozen=True)
class Exercise:
    folder: str  # "01_send_recv", of the lesson
    name: str
    kind: str
    what: str
    hints: list[str]
    function: str = ""
    part: bool = False
    draws: bool = False
    answers: dict[str, float] = dataclasses.field(default_factory=dict)
    hints_if: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)

    @property
    def lesson(self) -> int:
        return int(self.folder[:2])

    @property
    def file(self) -> pathlib.Path:
        """The reader's."""
        return ROOT / self.folder / "exercise" / f"{self.name}.{'txt' if self.answers else 'hpp'}"

    @property
    def solutions(self) -> pathlib.Path:
        return HERE / self.folder / f"{self.name}_solutions.hpp"


@dataclasses.dataclass(frozen=True)
class Known:
    """A known solution, right or wrong, of which the reference is the first."""

    exercise: Exercise
    name: str
    check: str  # that refuses it first, or "done"
    hint: str  # words of the hint that its writer then gets
    text: str  # C++

    includes: str | None = None  # if it is the reference but for a few lines: what these need

    @property
    def function(self) -> str:
        """With its namespace: what is changed may contain classes, whose names are the reference's."""
        its = f"{self.exercise.name}_{self.name.replace('-', '_')}"
        return its if self.includes is None else f"{its}::{self.exercise.name}"


def exercises_of(lesson: str) -> list[Exercise]:
    """In the order of the file. `lesson` is a number or a folder."""
    folder = next(name for name in LESSONS if lesson in (name, str(int(name[:2]))))
    tables = tomllib.loads((HERE / folder / "exercises.toml").read_text())
    for table in tables.values():
        table["hints"] = [" ".join(hint.split()) for hint in table["hints"]]
    return [Exercise(folder, name, **table) for name, table in tables.items()]


def exercise_of(lesson: str, name: str) -> Exercise:
    return next(each for each in exercises_of(lesson) if each.name == name)


def known_solutions(exercise: Exercise) -> list[Known]:
    """A solution begins with "// == NAME | CHECK | WORDS OF THE HINT", is the function EXERCISE_NAME
    (with _ for -), and ends where the next one begins. "// == helpers" begins what several wrong ones use."""
    pieces = re.split(r"^(?:// == (.*)|\}  // namespace.*)\n", exercise.solutions.read_text(), flags=re.M)
    known = []
    for heading, text in zip(pieces[1::2], pieces[2::2]):
        if heading and heading != "helpers":
            name, check, hint = [*(cell.strip() for cell in heading.split("|")), ""][:3]
            known.append(Known(exercise, name, check, hint, text))
    return known + changed(known[0])


def changed(ours: Known) -> list[Known]:
    """A row [NAME] of NAME_changes.toml is a solution that differs from the reference in what `old` says, which
    must stand there exactly once: there, it says `new`. Both may be lists, of several such places. `includes`,
    before the first row, are the headers that the rows need in addition."""
    file = ours.exercise.solutions.with_name(f"{ours.exercise.name}_changes.toml")
    known = []
    rows = tomllib.loads(file.read_text()) if file.exists() else {}
    includes = "".join(f"#include {each}\n" for each in rows.pop("includes", []))
    for name, row in rows.items():
        text = ours.text.replace(ours.function, ours.exercise.name)
        old, new = ([row[key]] if isinstance(row[key], str) else row[key] for key in ("old", "new"))
        for was in old:
            if text.count(was) != 1 or len(old) != len(new):
                sys.exit(f"error: {file.name}, [{name}]: this stands {text.count(was)} times in our solution: {was}")
        for place, was, becomes in sorted(((text.index(was), was, now) for was, now in zip(old, new)), reverse=True):
            text = text[:place] + becomes + text[place + len(was) :]
        known.append(Known(ours.exercise, name, row["check"], row.get("hint", ""), text, includes))
    return known


def state(exercise: Exercise) -> tuple[int, str]:
    if exercise.answers:
        return judge_numbers(exercise)
    return (TO_BE_JUDGED, "") if is_started(exercise.file.read_text(errors="replace")) else (3, "not started")


def reference(exercise: Exercise) -> str:
    if exercise.answers:
        return "".join(f"{question}: {right:g}\n" for question, right in exercise.answers.items()) + "\n"
    includes = re.findall(r"^#include .*\n", exercise.solutions.read_text(), re.M)
    ours = known_solutions(exercise)[0]
    text = ours.text.replace(ours.function, exercise.name)
    return f"{''.join(includes)}namespace dist::exercise {{\n{text}}}  // namespace dist::exercise\n"


def take(exercise: Exercise) -> str:
    """Returns what was done. The reader's file is kept under the first free name, and never replaced."""
    kept = next(
        path
        for number in itertools.count(1)
        if not (path := exercise.file.with_name(f"{exercise.file.name}.yours{number}")).exists()
    )
    kept.write_bytes(exercise.file.read_bytes())
    ours = reference(exercise)
    if exercise.answers:  # the task's text stays
        ours = exercise.file.read_text(errors="replace")
        for question, right in exercise.answers.items():
            ours = re.sub(rf"^( *{re.escape(question)} *:).*$", rf"\g<1> {right:g}", ours, flags=re.M)
    else:
        ours = (
            f"// Our solution, from ./learn solution {exercise.lesson} {exercise.name} --take. Yours is in "
            f"{kept.name}.\n#pragma once\n\n{ours}"
        )
    part = exercise.file.with_name(f"{exercise.file.name}.part")
    part.write_text(ours)
    part.replace(exercise.file)
    return f"{exercise.file.name} is ours now; yours is kept in {kept.relative_to(ROOT)}"


def declaration(exercise: Exercise) -> str:
    given = f"(const std::function<{exercise.function}>& solution);\n"
    drawn = f"Drawn drawn_{exercise.name}{given}" if exercise.draws else ""
    return f"std::vector<Check> checks_of_{exercise.name}{given}{drawn}"


def is_pure(exercise: Exercise) -> bool:
    """Whether its function sends nothing: none of its arguments could."""
    return not re.search("Communicator|ProcessGroup", exercise.function)


def entry(exercise: Exercise, solution: str, function: str) -> str:
    flags = f"{is_pure(exercise)}, {exercise.kind == 'nccl'}".lower()
    drawn = f"drawn_{exercise.name}"
    if exercise.draws:
        flags += f", Drawing{{{drawn}({function}), {drawn}({known_solutions(exercise)[0].function})}}"
    return f'{{"{exercise.name}", "{solution}", checks_of_{exercise.name}({function}), {flags}}}'


def program(includes: list[str], exercises: list[Exercise], solutions: list[str], more: str = "") -> str:
    """The main() that judges `solutions`."""
    return f"""// Written by tools/exercises/exercises.py.
{"".join(f"#include {name}{chr(10)}" for name in includes)}#include "tools/exercises/exercise.hpp"

namespace dist::exercise {{
{"".join(map(declaration, exercises))}{more}}}  // namespace dist::exercise

int main(int argc, char** argv) {{
  using namespace dist::exercise;
  return run(argc, argv, {{{f",{chr(10)}".join(solutions)}}});
}}
"""


def yours(exercise: Exercise) -> str:
    """It gets the reader's function from another file, so that a change of that compiles nothing else, and so
    that what is wrong there is not found in a hundred headers that come after it."""
    types = re.findall(r"^#include (.*)", exercise.solutions.read_text(), re.M)
    ours = known_solutions(exercise)[0].text if exercise.draws else ""
    return program(
        types,
        [exercise],
        [entry(exercise, "yours", "*yours()")],
        f"std::add_pointer_t<{exercise.function}> yours();\n{ours}",
    )


def adapter(exercise: Exercise) -> str:
    return f"""// Written by tools/exercises/exercises.py. Nothing is included after the reader's file.
#include "{exercise.folder}/exercise/{exercise.name}.hpp"

namespace dist::exercise {{
using Function = {exercise.function};
Function* yours() {{ return {exercise.name}; }}
}}  // namespace dist::exercise
"""


def stubs(exercises: list[Exercise]) -> str:
    files = "".join(f'#include "{each.folder}/exercise/{each.name}.hpp"\n' for each in exercises)
    uses = "".join(
        f"extern const std::add_pointer_t<{each.function}> stub_of_{each.name} = {each.name};\n" for each in exercises
    )
    return f"""// Written by tools/exercises/exercises.py.
{files}
#include <type_traits>

namespace dist::exercise {{
{uses}}}  // namespace dist::exercise
"""


def known(exercises: list[Exercise]) -> str:
    solutions = [one for each in exercises for one in known_solutions(each)]
    return program(
        [
            *(f'"tools/exercises/{each.folder}/{each.solutions.name}"' for each in exercises),
            *dict.fromkeys(line[9:] for one in solutions for line in (one.includes or "").splitlines()),
        ],
        exercises,
        [entry(one.exercise, one.name, one.function) for one in solutions],
        "".join(
            f"namespace {one.function.split(':')[0]} {{\n{one.text}}}\n"
            for one in solutions
            if one.includes is not None
        ),
    )


def write(path: pathlib.Path, text: str) -> None:
    """A file that would not change keeps its time stamp, so that nothing is compiled again."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def parts(root: pathlib.Path, folder: pathlib.Path, model: str) -> None:
    """Writes what tools/exercises/mine/ includes. chosen.hpp: the reader's exercises, and the reference of each one
    that is still a stub. The macro gives each its own namespace, because they form one program and may have helpers
    of the same name. my_model.hpp: make_model, of our model or of the one in the file `model`."""
    text, rows = "", ""
    for lesson in LESSONS:
        earlier: list[str] = []  # an exercise may use those before it
        for part in (each for each in exercises_of(lesson) if each.part):
            header = f"{part.folder}/exercise/{part.name}.hpp"
            file = root / header
            yours = file.exists() and is_started(file.read_text(errors="replace"))
            if not yours:
                header = f"our_{part.name}.hpp"
                write(folder / header, reference(part))
            uses = "".join(f"using namespace of_{name};\n" for name in earlier)
            text += (
                f"namespace dist::exercise::of_{part.name} {{\n{uses}}}\n"
                f'#define exercise exercise::of_{part.name}\n#include "{header}"\n#undef exercise\n'
            )
            rows += f'  {{"{part.name}", {part.lesson}, {str(yours).lower()}}},\n'
            earlier.append(part.name)
    write(folder / "chosen.hpp", f"{text}\nnamespace dist::mine {{\ninline Part parts[] = {{\n{rows}}};\n}}\n")
    made = "Mlp>(std::vector<std::size_t>{data.features(), 512, 512, 512, data.classes()}, generator, Stream(Device{}))"
    if model:
        made = "YourModel>(data.features(), data.classes(), generator)"
    # The file may be a whole program, like your_model.cpp.
    included = "".join(
        f'#include "{header}"\n'
        for header in ("04_distributed_sampler/datasets/digits_dataset.hpp", "05_ddp_training/model/mlp.hpp")
    )
    included += f'#define main main_of_the_model\n#include "{model}"\n#undef main\n' if model else ""
    write(
        folder / "my_model.hpp",
        f"""#pragma once
{included}
#include <memory>
#include <vector>

namespace dist::mine {{
inline constexpr bool kModelIsYours = {str(bool(model)).lower()};
inline std::unique_ptr<Module> make_model(const IdxDataset& data, Generator& generator) {{
  return std::make_unique<{made};
}}
}}
""",
    )


def main(command: str, *words: str) -> None:
    if command == "list":
        for each in (each for lesson in LESSONS for each in exercises_of(lesson)):
            print(each.lesson, each.name, each.kind, "part" if each.part else "-", each.what)
    elif command == "hints":
        print(*exercise_of(*words).hints, sep="\n")
    elif command == "solution":
        exercise = exercise_of(*words[:2])
        print(beside(exercise.file.read_text(errors="replace"), reference(exercise), int(words[2])))
    elif command == "take":
        print(take(exercise_of(*words)))
    elif command == "yours":
        write(pathlib.Path(words[2]), yours(exercise_of(*words[:2])))
    elif command == "adapter":
        write(pathlib.Path(words[2]), adapter(exercise_of(*words[:2])))
    elif command == "known":
        programs = [each for each in exercises_of(words[0]) if not each.answers]
        write(pathlib.Path(words[1]), known([each for each in programs if each.name in words[2:] or not words[2:]]))
    elif command == "stubs":
        write(pathlib.Path(words[1]), stubs([exercise_of(words[0], name) for name in words[2:]]))
    elif command == "state":
        status, answer = state(exercise_of(*words))
        print(answer, end="\n" if answer else "")
        sys.exit(status)
    elif command == "errors":
        exercise = exercise_of(*words[:2])
        log = pathlib.Path(words[2]).read_text(errors="replace")
        print(*in_words(log, exercise.name, exercise.function), sep="\n")
    elif command == "fit":
        for each in (each for lesson in LESSONS for each in exercises_of(lesson) if not each.answers):
            known_solutions(each)
    elif command == "parts":
        parts(pathlib.Path(words[0]), pathlib.Path(words[1]), os.environ.get("MY_MODEL", ""))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
