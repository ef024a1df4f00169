"""Small tasks: the reader types numbers after questions, in a text file."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exercises import Exercise


def number_of(typed: str) -> float:
    """Raises ValueError, whose text is a hint, if it is not one number."""
    typed, number = typed.replace("\N{MINUS SIGN}", "-"), r"[-+]?(?:\d+\.?\d*|\.\d+)"
    if re.fullmatch(number, typed):
        return float(typed)
    if re.fullmatch(rf"{number} */ *{number}", typed):
        raise ValueError("type the decimal number, not a fraction: 3/4 is 0.75.")
    if re.fullmatch(r"[-+]?\d+,\d+", typed):
        raise ValueError("type a point in place of a decimal comma, and no comma between thousands.")
    if re.fullmatch(rf"{number} *(?:%|[^\W\d_].*)", typed):
        raise ValueError("type only the number, without a unit.")
    raise ValueError("type one number and nothing else.")


def judge_numbers(exercise: Exercise) -> tuple[int, str]:
    """The status and the answer: of all questions, the first that is not answered rightly gets a hint. The first
    line of the answer is short, because ./learn check writes the exercise's name before it."""
    text = exercise.file.read_text(encoding="utf-8-sig", errors="replace")
    typed, wrong = {}, []
    for question in exercise.answers:
        line = re.search(rf"^[^\S\n]*{re.escape(question)}[^\S\n]*:(.*)$", text, re.M)
        if line is None:
            return 1, folded(
                "wrong: a line is missing:", f"{question}: ?", f"hint: type this line again in {exercise.file.name}."
            )
        typed[question] = line[1].strip(" \t?\N{NO-BREAK SPACE}")
    if not any(typed.values()):
        return 3, "not started"
    for question, right in exercise.answers.items():
        said = typed[question]
        try:
            if not said:
                wrong.append((f"{question}: no number yet", f"./learn hint {exercise.lesson} {exercise.name}"))
            elif (number := number_of(said)) != right:
                own = {float(key): hint for key, hint in exercise.hints_if.get(question, {}).items()}
                wrong.append((f"{question}: not {said}", own.get(number, exercise.hints[0])))
        except ValueError as error:
            wrong.append((f"{question}: '{textwrap.shorten(said, 40)}' is not a number", str(error)))
    if not wrong:
        return 0, "done"
    done = len(typed) - len(wrong)
    return 1, folded(
        f"wrong: {done} of {len(typed)} {'is' if done == 1 else 'are'} right; "
        f"the {'one' if len(wrong) == 1 else 'first'} that is not:",
        wrong[0][0],
        f"hint: {wrong[0][1]}",
    )


def folded(*lines: str) -> str:
    """./learn check indents them by 2."""
    return "\n".join(textwrap.fill(line, 94, break_on_hyphens=False) for line in lines)
