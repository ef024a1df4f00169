"""The words of ./learn, in one table: what runs each, what help says of it, and what a shell completes."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable

import course_map
import doctor
import exercise_words
import other_words
import programs_run
from console import Failed, did_you_mean, say
from place import LESSONS

Run = Callable[[list[str]], int]


@dataclasses.dataclass(frozen=True)
class Word:
    name: str
    run: Run
    forms: list[tuple[str, str]]  # what may be typed after ./learn, and what it does
    takes: str = ""  # what a shell may complete after it
    explains_itself: bool = False  # --help belongs to the script behind it


def run_map(words: list[str]) -> int:
    programs_run.at_most(0, "map", words)
    return course_map.show_map()


def run_doctor(words: list[str]) -> int:
    programs_run.at_most(0, "doctor", words)
    return doctor.run_doctor()


def run_help(words: list[str]) -> int:
    if not words:
        show([form for word in WORDS for form in word.forms])
        return 0
    programs_run.at_most(1, "help", words)
    if words[0].startswith("-"):
        return help_of_flag(words[0])
    return help_of(word_named(words[0]))


def run_completion(words: list[str]) -> int:
    """For bash: words, then what they take."""
    programs_run.at_most(0, "completion", words)
    say("_learn() {\n  local word=${COMP_WORDS[COMP_CWORD]} words")
    say("  case ${COMP_WORDS[1]}:$COMP_CWORD in")
    say(f"    *:1) words='{' '.join(word.name for word in WORDS if word.name != 'map')} --yes' ;;")
    for word in WORDS:
        if word.takes:
            say(f"    {word.name}:*) words='{word.takes}' ;;")
    say('  esac\n  COMPREPLY=($(compgen -W "$words" -- "$word"))\n}\ncomplete -o default -F _learn ./learn learn')
    return 0


LESSON_FORM = ("1 ... 5 [-n RANKS] [-- FLAGS]", "build what the lesson needs and run it (4 ranks by default)")
WORDS = [
    Word("map", run_map, [("", "the course map")]),
    *(
        Word(
            str(each.number),
            functools.partial(programs_run.run_lesson, each),
            [LESSON_FORM] if each.number == 1 else [],
            "-n --",
        )
        for each in LESSONS
    ),
    Word(
        "perf",
        programs_run.run_perf,
        [("perf 1 ... 3 [-n RANKS] [-- FLAGS]", "measure what the lesson's messages cost")],
        "1 2 3",
    ),
    Word(
        "check",
        exercise_words.run_check,
        [
            (
                "check [1 ... 5] [EXERCISE] [--watch]",
                'test your solutions to a lesson\'s exercises, or to the next one\nthat is not done: "not started", '
                '"wrong" with a hint, or "done".\nExit status 0 if all are done. --watch: again after every save',
            ),
            ("check EXERCISE --draw", "and make a page on which you step through its messages"),
        ],
        "1 2 3 4 5 --watch --draw",
    ),
    Word(
        "hint",
        exercise_words.run_hint,
        [("hint [1 ... 5] [EXERCISE]", "the next hint for the first exercise that is not done")],
        "1 2 3 4 5",
    ),
    Word(
        "solution",
        exercise_words.run_solution,
        [
            ("solution 1 ... 5 | EXERCISE [--yes]", "yours and ours, of what you have done; --yes: of the rest, too"),
            ("solution EXERCISE --take", "our solution into your file; yours is kept beside it"),
        ],
        "1 2 3 4 5 --yes --take",
    ),
    Word(
        "mine",
        exercise_words.run_mine,
        [
            (
                "mine [-n RANKS] [--model FILE] [-- FLAGS]",
                "the trainer made of your own finished exercises;\n--model: with the class YourModel of this file",
            )
        ],
        "-n --model --",
    ),
    Word(
        "break",
        programs_run.run_break,
        [
            (
                "break 1 ... 5 [NAME [-n RANKS] [-- FLAGS]]",
                "list the lesson's experiments, which break something on\npurpose, or run one",
            )
        ],
        "1 2 3 4 5",
    ),
    Word(
        "more",
        programs_run.run_more,
        [("more [NAME [-n RANKS] [-- FLAGS]]", "list the programs of lesson 5's further pages, or run one")],
        " ".join(programs_run.MORE),
    ),
    Word(
        "report",
        other_words.run_report,
        [
            (
                "report RUN.jsonl [--trace TRACE.json] [-o PAGE.html]",
                "make one page (RUN.html) about a training run, from what\nddp_training --json and --trace wrote",
            )
        ],
        "--trace -o",
        explains_itself=True,
    ),
    Word("site", other_words.run_site, [("site [FOLDER]", "the course as a web site, with search (build/site)")]),
    Word("doctor", run_doctor, [("doctor", "show what this machine has, what is missing, and how to fix it")]),
    Word(
        "test",
        other_words.run_test,
        [
            ("test [CTEST FLAGS]", "build and run the most important tests (8 minutes)"),
            ("test --all [CTEST FLAGS]", "build everything and run every test (about an hour)"),
            (
                "test --gpu",
                "try everything on your own GPUs, and write build/gpu.md, a\ntable that you can share (10 minutes)",
            ),
        ],
        "--all --gpu",
    ),
    Word(
        "bench",
        other_words.run_bench,
        [
            (
                "bench [--quick] [all-reduce | training | overlap | hosts | matmul | gpt | gpu] [FLAGS]",
                "all-reduce and training, or one of these, beside libraries; pages\n"
                "go to bench/results, or with --quick (2 minutes) to build/bench",
            )
        ],
        "--quick all-reduce training overlap hosts gpu",
        explains_itself=True,
    ),
    Word("help", run_help, [("help [WORD]", "show this text, or what it says of one word")]),
    Word(
        "completion",
        run_completion,
        [("completion", 'print what makes bash complete these words:\neval "$(./learn completion)"')],
    ),
]
EVERYWHERE = ("--yes COMMAND", "install missing packages without asking")
COLUMN = 36  # at which what a form does begins


def show(forms: list[tuple[str, str]]) -> None:
    for form, does in [*forms, *([EVERYWHERE] if len(forms) > 5 else [])]:
        typed, lines = f"./learn {form}".rstrip(), does.split("\n")
        if len(typed) < COLUMN - 1:
            say(f"{typed:{COLUMN}}{lines.pop(0)}")
        else:
            say(typed)
        for line in lines:
            say(" " * COLUMN + line)


def word_named(name: str) -> Word:
    for word in WORDS:
        if word.name == name:
            return word
    if name.isdecimal() and not 1 <= int(name) <= len(LESSONS):
        raise Failed(f"{name}: there is no such lesson; they are 1 to {len(LESSONS)}")
    near = did_you_mean(name, [word.name for word in WORDS], "./learn ") or ";"
    raise Failed(f"{name}: no such command{near} ./learn help lists all")


def help_of_flag(flag: str) -> int:
    forms = [*(form for word in WORDS for form in word.forms), EVERYWHERE]
    found = [(form, does) for form, does in forms if flag in re.findall(r"--?\w+", f"{form} {does}")]
    if not found:
        known = {each for form, _ in forms for each in re.findall(r"--?\w+", form)}
        raise Failed(f"{flag}: no word of ./learn has this flag{did_you_mean(flag, known)}")
    show(found)
    return 0


def help_of(word: Word) -> int:
    forms = word.forms or [LESSON_FORM]
    show(forms)
    return 0
