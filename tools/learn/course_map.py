"""./learn: the course map, and the next step."""

from __future__ import annotations

import os

from console import say
from judging import every_exercise, key, parts_that_are_yours
from place import BUILD, LESSONS, Lesson
from progress import Progress


def counted(lesson: Lesson, progress: Progress, base: bool) -> tuple[int, int]:
    """How many of a lesson's exercises are done, and how many there are: base ones, or advanced and nccl ones."""
    listed = [
        each
        for each in every_exercise()
        if each.lesson == lesson.number and each.kind in (("base",) if base else ("advanced", "nccl"))
    ]
    return sum(key(each) in progress.done for each in listed), len(listed)


def show_map() -> int:
    progress, following = Progress(), ""
    can_read = bool(every_exercise())
    say("From one MPI_Send to data-parallel training, in five lessons")
    say()
    for lesson in LESSONS:
        is_built = os.access(BUILD / "bin" / lesson.program, os.X_OK)
        base, advanced = counted(lesson, progress, True), counted(lesson, progress, False)
        texts = [f"{done}/{all_of_them}" if can_read else "-" for done, all_of_them in (base, advanced)]
        say(
            f"  {lesson.number}  {lesson.title:38} {'built' if is_built else 'not built':9} exercises {texts[0]:4} "
            f"advanced {texts[1]:4} {lesson.folder}/README.md"
        )
        if not following:
            if not is_built:
                following = f"./learn {lesson.number}"
            elif base[0] != base[1]:
                following = f"./learn check {lesson.number}"
    say(f"     {'The finale, a GPT: ./learn more gpt':77} 05_ddp_training/advanced/gpt.md")
    say()
    if can_read:
        say(parts_that_are_yours(progress))
    say(f"next: {following or './learn test'}        all commands: ./learn help")
    return 0
