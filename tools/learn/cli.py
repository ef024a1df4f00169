"""From what was typed to the word that does it, and how ./learn ends."""

from __future__ import annotations

import errno
import os
import signal

import console
import packages
import words
from console import Ended, Failed, print_failure
from machine import require_limits


def dispatch(typed: list[str]) -> int:
    if typed[:1] == ["--yes"]:
        packages.asks, typed = False, typed[1:]
    name, rest = (typed[0] or "map", typed[1:]) if typed else ("map", [])
    if name in ("-h", "--help"):
        name = "help"
    word = words.word_named(name)
    if {"-h", "--help"} & {*rest[: rest.index("--") if "--" in rest else len(rest)]} and not word.explains_itself:
        return words.help_of(word)
    require_limits()
    if packages.conda():
        os.environ["CMAKE_PREFIX_PATH"] = ":".join(packages.prefixes())
    return word.run(rest)


def because_of(error: OSError) -> Failed:
    files = " and ".join(str(each) for each in (error.filename, error.filename2) if each)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failed(f"{files or 'a file'}: the disk is full; free some space and run ./learn again")
    return Failed(f"{files}: {error.strerror}" if files else str(error))


def main(typed: list[str]) -> int:
    console.begin()
    try:
        return dispatch(typed)
    except Failed as error:
        print_failure(error)
        return error.status
    except Ended as ended:
        return ended.status
    except OSError as error:  # a file that somebody else owns, a disk that is full, a folder in a file's place
        print_failure(because_of(error))
        return 2
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)  # so that a shell that started us stops, too
        return 130
