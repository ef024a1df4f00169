"""The compiler's first error in a reader's file, in at most ten lines, for ./learn check."""

from __future__ import annotations

import re

LINES = 9  # ./learn check adds where the rest is
_HEAD = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)? (?P<kind>fatal error|error|note|warning): (?P<text>.*)$"
)
_READERS = re.compile(r"(?:^|/)(\d\d_\w+/exercise/\w+\.hpp)$")


def _shortened(path: str) -> str:
    return found[1] if (found := _READERS.search(path)) else path.rsplit("/", 1)[-1]


def _blocks(log: str) -> list[tuple[re.Match[str], list[str]]]:
    """Each error or note, with the lines of code below it."""
    blocks: list[tuple[re.Match[str], list[str]]] = []
    for line in log.splitlines():
        if head := _HEAD.match(line):
            blocks.append((head, []))
        elif blocks and re.match(r" *\d* \|", line):
            blocks[-1][1].append(line)
    return blocks


def _shown(head: re.Match[str], code: list[str]) -> list[str]:
    return [f"{_shortened(head['file'])}:{head['line']}: {head['text']}", *code[:3]]


def _hint_of_types(text: str) -> str:
    """For a call of a function template of ours with other types than it needs."""
    text = text.replace("‘", "'").replace("’", "'")
    call = re.search(r"no matching function for call to '(\w+)(<[^(]*>)?\((.*)\)'", text)
    const = re.search(r"could not convert '(\w+)' from '.*span<const .*' to '.*span<(?!const)", text)
    if const:
        return f"hint: `{const[1]}` may only be read. What is received is written, so it needs a span of other numbers."
    if not call:
        return ""
    name, types, arguments = call.groups()
    if types and "const" in types:
        return f"hint: name the type without const: {name}<{types[1:-1].replace('const', '').strip()}>(...)."
    element = re.search(r"(?:vector|span|array)<(?:const )?([\w:]+)", arguments)
    if not types and element:
        return (
            f"hint: name the type of the elements: {name}<{element[1]}>(...). Only then does a vector become a span "
            "by itself."
        )
    return ""


def in_words(log: str, name: str, function: str) -> list[str]:
    """What does not compile, and a hint; empty if no error has to do with a reader's file. The exercise is
    `name`, whose function has the type `function`."""
    blocks = [(head, code) for head, code in _blocks(log) if head["kind"] != "warning"]
    errors = [number for number, (head, _) in enumerate(blocks) if "error" in head["kind"]]
    if not errors:
        return []
    result, _, parameters = function.partition("(")
    hint = "hint: begin with this error; others may be only its consequences."
    theirs = [number for number in errors if _READERS.search(blocks[number][0]["file"])]
    if "not terminated" not in log and any(
        "unterminated argument list" in blocks[number][0]["text"] for number in theirs
    ):
        # It is seen at the end of the file; the next error tells where the macro begins.
        theirs = theirs[1:] or theirs
        hint = "hint: a ( in this line has no ), so that the rest of the file counts as the macro's argument."
    if theirs:
        head, code = blocks[theirs[0]]
        if head["text"].startswith("control reaches end"):
            hint = (
                "hint: the function ends only here, so one of its { has no }."
                if "namespace" in "".join(code)
                else "hint: every way through the function must end with a return."
            )
        shown = _shown(head, code)
        hint = _hint_of_types(head["text"]) or hint
        for head, code in blocks[theirs[0] + 1 :]:
            if head["kind"] != "note":
                break
            # What is a candidate, and that a substitution failed, says less than why.
            if not re.search("macro|^ *candidate|failed:$", head["text"]):
                shown += _shown(head, code)
    elif (
        number := next((number for number in errors if "at end of input" in blocks[number][0]["text"]), None)
    ) is not None:
        head, _ = blocks[number]
        notes = [
            block
            for block in blocks[number + 1 : number + 2]
            if block[0]["kind"] == "note" and _READERS.search(block[0]["file"])
        ]
        shown = [f"{head['text']}", *(line for block in notes for line in _shown(*block))]
        hint = (
            "hint: one { more than } is in this file. The compiler names the { that is still open at the end; the } "
            "that is missing may belong to a later one, for example your function's."
        )
    elif any("_adapter.cpp" in blocks[number][0]["file"] for number in errors):
        shown = [
            f"the check calls  {result} {name}({parameters}",
            "as in the stub; yours has another name, other parameters or another result",
        ]
        hint = "hint: keep the stub's name, parameters and namespace; git can restore them."
    else:
        used = re.search(r"^(\S*?\d\d_\w+/exercise/\w+\.hpp):(\d+):\d+: +required from here", log, re.M)
        used = used or re.search(
            r"^(?:In file included from|  +from) (\S*?\d\d_\w+/exercise/\w+\.hpp):(\d+)", log, re.M
        )
        if not used:
            return []
        shown = [*_shown(*blocks[errors[0]])[:1], f"because of {_shortened(used[1])}:{used[2]}"]
    return ["wrong: it does not compile", *(f"  {line}" for line in shown[: LINES - 2]), hint]
