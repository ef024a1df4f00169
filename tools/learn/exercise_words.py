"""./learn check, hint, solution and mine."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import textwrap
import time

import packages
import programs_run
from build_folder import Build, CannotBuild
from console import GREEN, PLAIN, RED, YELLOW, Failed, did_you_mean, err, print_failure, say, width
from judging import (
    DONE,
    NOT_JUDGED,
    NOT_STARTED,
    WRONG,
    Judge,
    every_exercise,
    key,
    need_exercises,
    parts_that_are_yours,
    quietly,
)
from machine import need_folder
from place import BUILD, LESSONS, ROOT, STATE, short
from progress import Progress

try:
    import exercises
    from beside import beside
except (SystemExit, ImportError):
    pass  # need_exercises sees to it


FLAGS: dict[str, list[str]] = {"check": ["--watch", "--draw"], "hint": [], "solution": ["--yes", "--take"]}


def resolved(command: str, words: list[str]) -> list[str]:
    """LESSON, or LESSON and EXERCISE. The exercise may stand alone, and be written as its file is (ring-shift.hpp)."""
    for word in words:
        if word.startswith("-"):
            raise Failed(f"{command}: {word}: unknown flag{did_you_mean(word, FLAGS[command])}")
    programs_run.at_most(2, command, words)
    if not words:
        return []
    listed, where = every_exercise(), "there is no exercise"
    if len(words) == 2 or words[0].isdecimal():
        lesson = programs_run.lesson_of(words[0], command)
        if len(words) == 1:
            return words
        listed, where = [each for each in listed if each.lesson == lesson.number], f"lesson {words[0]} has no exercise"
    need_exercises(command)
    name = re.sub(r"\.\w+$", "", pathlib.PurePath(words[-1]).name).replace("-", "_")
    for each in listed:
        if each.name == name:
            return [str(each.lesson), name]
    names = [each.name for each in listed]
    near = did_you_mean(name, names)
    for each in every_exercise():
        if each.name == name:
            near = f"; lesson {each.lesson} has it."
    all_of_them = ""
    if len(words) == 2:
        all_of_them = f"{' Its' if near else '; its'} exercises are: {' '.join(names)}"
    raise Failed(f"{command}: {where} '{words[-1]}'{near}{all_of_them}")


def chosen(command: str, words: list[str]) -> list[exercises.Exercise]:
    """The exercises that resolved words name: a lesson means all of its own, without the finale's."""
    need_exercises(command)
    need_folder(STATE)
    return [
        each
        for each in every_exercise()
        if [str(each.lesson), each.name][: len(words)] == words and (len(words) == 2 or each.kind != "finale")
    ]


def next_exercise(progress: Progress) -> list[str]:
    """The words for the first that is not done: base exercises and the small tasks before them, first."""
    for kind in ("base", "advanced", "nccl"):
        for each in every_exercise():
            if kind == each.kind.replace("numbers", "base") and key(each) not in progress.done:
                return [str(each.lesson), each.name]
    return []


def run_check(words: list[str]) -> int:
    watches, draws = "--watch" in words, "--draw" in words
    words = resolved("check", [word for word in words if word not in ("--watch", "--draw")])
    need_exercises("check")
    if draws and len(words) != 2:
        raise Failed("check: --draw needs the name of one exercise")
    judge = Judge(draws)
    return watch(words, judge) if watches else check(words, judge)


def check_next(judge: Judge) -> int:
    """The next exercise, and while they are done, those after it."""
    while words := next_exercise(Progress()):
        say(f"lesson {words[0]}:")
        if worst := check(words, judge):
            return worst
    say("every exercise is done")
    return DONE


def check(words: list[str], judge: Judge) -> int:
    """Without words: the next one."""
    if not words:
        return check_next(judge)
    return check_all(chosen("check", words), judge)


def check_all(chosen_ones: list[exercises.Exercise], judge: Judge) -> int:
    worst, parts_before = DONE, parts_that_are_yours(Progress())
    for exercise in chosen_ones:
        status, answer = judge(exercise)
        first, _, rest = answer.partition("\n")
        colour, place = {DONE: GREEN, WRONG: RED}.get(status, YELLOW), ""
        if status == NOT_STARTED:
            place = f"  {exercise.file.relative_to(ROOT)}"
        say(f"{exercise.name:22} {exercise.kind:9} {colour}{first}{PLAIN}{place}")
        for line in rest.splitlines():
            say(f"  {line}")
        progress = Progress()
        if status != NOT_JUDGED:
            progress.add("done" if status == DONE else "undone", key(exercise))
        worst = min(status, worst, key=(WRONG, NOT_JUDGED, NOT_STARTED, DONE).index)
        if status != DONE:
            continue
        compare(exercise)
        say(f"  our solution: ./learn solution {exercise.lesson} {exercise.name}")
    if (parts := parts_that_are_yours(Progress())) != parts_before:
        say(parts)
    return worst


def compare(exercise: exercises.Exercise) -> None:
    """Names the lesson's own solution to a finished exercise, if any."""
    begin = "The solution is the "
    if exercise.hints and exercise.hints[-1].startswith(begin):
        say(f"  compare with the {exercise.hints[-1][len(begin) :]}")


def when_saved(files: list[pathlib.Path]) -> list[int] | None:
    """None while an editor replaces a file, which is then missing for a moment."""
    try:
        return [file.stat().st_mtime_ns for file in files]
    except OSError:
        return None


def watch(words: list[str], judge: Judge) -> int:
    """Judges again after every save, until Ctrl-C: what was saved, or all if that is no exercise."""
    folder = LESSONS[int(words[0]) - 1].folder if words else ""
    files = sorted(ROOT.glob(f"{folder or '0?_*'}/exercise/*.*"))
    before: list[int] = []
    while True:
        while (saved := when_saved(files)) is None:
            time.sleep(0.3)
        new = [file for file, was, now in zip(files, before, saved) if was != now]
        before = saved
        try:
            changed = [each for each in chosen("check", words) if each.file in new] if len(words) == 1 else []
            check_all(changed, judge) if changed else check(words, judge)
        except Failed as error:
            if when_saved(files) == saved:
                raise
            print_failure(error)
        where = f"{folder or 'LESSON'}/exercise"
        say(f"judged at {time.strftime('%T')}; save a file in {where} to judge again, Ctrl-C to end")
        while when_saved(files) == saved:
            time.sleep(0.3)


def run_hint(words: list[str]) -> int:
    words, progress = resolved("hint", words), Progress()
    need_exercises("hint")
    if not words and not (words := next_exercise(progress)):
        say("every exercise is done")
        return 0
    for exercise in chosen("hint", words):
        if len(words) == 1 and key(exercise) in progress.done:
            continue
        if not exercise.hints:
            raise Failed(f"hint: there are no hints for {exercise.name}")
        seen, all_of_them = progress.hints.get(key(exercise), 0), len(exercise.hints)
        if seen > 0 and seen % all_of_them == 0:
            say(f"{exercise.name}: you have seen all {all_of_them} hints; starting again with the first")
        progress.add("hint", key(exercise), seen + 1)
        say(f"{exercise.name}, hint {seen % all_of_them + 1} of {all_of_them}:")
        for line in folded(exercise.hints[seen % all_of_them]):
            say(line)
        return 0
    say(
        f"lesson {words[0]}: every exercise is done (./learn check {words[0]}); ./learn hint {words[0]} NAME shows "
        "hints again"
    )
    return 0


def folded(text: str) -> list[str]:
    return textwrap.wrap(text, 96, break_long_words=False, break_on_hyphens=False)


def run_solution(words: list[str]) -> int:
    """Shows our solutions to what is done, beside the reader's. --take puts ours into the reader's file."""
    shows_all, takes = "--yes" in words or not packages.asks, "--take" in words
    words = resolved("solution", [word for word in words if word not in ("--yes", "--take")])
    if not words:
        raise Failed("solution: needs a lesson from 1 to 5, or the name of an exercise")
    found, progress = chosen("solution", words), Progress()
    if takes:
        if len(words) != 2:
            raise Failed("solution: --take needs the name of one exercise")
        try:
            say(exercises.take(found[0]))
        except OSError as error:
            raise Failed(f"solution: {found[0].file} cannot be replaced: {error.strerror}") from None
        return 0
    for exercise in found:
        if shows_all or key(exercise) in progress.done:
            say(f"// {exercise.name}")
            say(beside(exercise.file.read_text(errors="replace"), exercises.reference(exercise), width()))
            compare(exercise)
        else:
            left = len(exercise.hints) - progress.hints.get(key(exercise), 0)
            unseen = f"have not seen {left} of its hints" if left > 0 else "have seen all of its hints"
            say(f"{exercise.name} is not done. You {unseen} (./learn hint {exercise.lesson} {exercise.name}).")
            say(f"To see our solution now: ./learn solution {exercise.lesson} {exercise.name} --yes")
    return 0


def build_with_model(name: str) -> None:
    """Builds the trainer with the model in this file, instead of the course's."""
    file = pathlib.Path(name)
    if not file.is_file():
        raise Failed(f"mine: --model: there is no file {name}", status=WRONG)
    if re.search(r'["\\\n]', str(file.resolve())):
        raise Failed(f"mine: --model: {name} has a character in its path that C++ cannot include", status=WRONG)
    os.environ["MY_MODEL"] = str(file.resolve())
    try:
        with quietly():
            Build(BUILD).targets(5, "my_ddp_training")
    except CannotBuild:
        log = (STATE / "build.log").read_text(errors="replace")
        first = re.search(rf"^{re.escape(str(file.resolve()))}:(\d+):\d+: (?:fatal )?error: (.*)", log, re.M)
        why = f"line {first[1]}: {first[2]}" if first else "it needs a class YourModel, as your_model.cpp has it"
        words = f"(all of the compiler's words are in {short(STATE / 'build.log')})"
        raise Failed(f"mine: --model: {name} does not compile: {why} {words}", status=WRONG) from None


def run_mine(words: list[str]) -> int:
    """The trainer made of the reader's own exercises. Each written part is judged first, on as many ranks as
    will train, because a wrong part could hang. With --model FILE, it trains the model in that file."""
    os.environ.pop("MY_MODEL", None)
    before = words[: words.index("--")] if "--" in words else words
    model = ""
    if "--model" in before:
        place = before.index("--model")
        if place + 1 == len(before):
            raise Failed("mine: --model needs a file")
        model, words = words[place + 1], words[:place] + words[place + 2 :]
    ranks = words[1] if words[:1] == ["-n"] and len(words) > 1 else "4" if words[:1] != ["-n"] else ""
    need_exercises("mine")
    if re.fullmatch("[1-9][0-9]?", ranks):  # else run() says what is wrong with it
        judge, progress = Judge(ranks=ranks), Progress()
        for part in (each for each in every_exercise() if each.part):
            status, answer = judge(part)
            if answer == "not started":
                continue
            need_folder(STATE)
            if status != NOT_JUDGED:
                progress.add("done" if status == DONE else "undone", key(part))
            if status != DONE:
                err(f"{part.name}: {answer}")
                return NOT_JUDGED if status == NOT_JUDGED else WRONG
    if model:
        build_with_model(model)
    status = programs_run.run(5, "my_ddp_training", words)
    if status in (0, 1, 2, 128 + signal.SIGINT):
        return status
    err(f"WRONG: the trainer ended with status {status}; the lines above name the part")
    return 1
