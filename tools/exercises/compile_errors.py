"""The compiler's first error in a reader's file, in at most ten lines, for ./learn check."""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
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


# What the compiler says, and what it means here.
_MEANINGS = [
    (
        r"cannot convert .*chrono::duration.* to '(?:const )?(?:double|float)'",
        "a duration is not a number: std::chrono::duration<double>(end - begin).count() is its seconds.",
    ),
    (
        r"cannot convert '(?:const )?std::(?:span|vector|array)<.*' to '(?:const )?(?:void|float|char)\*'",
        "MPI takes the address of the first element, which x.data() gives, and the number of elements, x.size().",
    ),
    (
        r"cannot convert .*\*'.* to '(?:const )?(?:char|\S*char_type)\*'",
        "a stream takes chars: reinterpret_cast<const char*>(p), without const to read, and counts bytes.",
    ),
    (
        r"use of deleted function .*\((?:const )?[\w:]+&\)'",
        "that type cannot be copied: keep a reference to it (const Stream& compute_;), or std::move it.",
    ),
    (
        r"uninitialized reference member",
        "a reference is bound before the body of the constructor, and never later: BucketedSync(...) : group_(group), "
        "compute_(compute), ... { }.",
    ),
    (
        r"'(?:begin|end)' was not declared",
        "what stands after the colon has no elements. To count: for (std::size_t k = 0; k < n; ++k).",
    ),
    (
        r"read-only|discards qualifiers|increment of|assignment of .* in read-only",
        "it changes what is const, such as the elements of a span<const ...>: copy them into a std::vector first.",
    ),
    (
        r"designator order for field",
        "designated initializers come in the order in which the struct declares its members.",
    ),
    (
        r"narrowing conversion",
        "in braces, no number may lose its value on the way: convert it with static_cast<...>(...).",
    ),
]


def _header_of(name: str) -> str:
    """The course's header that declares this name for everybody; the first lesson's, if there are several."""
    definition = re.compile(
        rf"^(?:(?:enum class|class|struct) {name}\b(?! *;)|[\w:<>,&*\[\] ]*\b{name}\((?!.*\bnot_started\b))", re.M
    )
    for folder in ("common", *sorted(path.name for path in ROOT.glob("0[1-5]_*"))):
        for path in sorted((ROOT / folder).rglob("*.hpp"), key=lambda each: (len(each.parts), each)):
            header = str(path.relative_to(ROOT))
            if not re.search(r"/(?:exercise|advanced|break_it)/", header) and definition.search(path.read_text()):
                return header
    return ""


def _meaning_of(text: str, file: str) -> str:
    text = text.replace("‘", "'").replace("’", "'")
    for words, meaning in _MEANINGS:
        if re.search(words, text):
            return f"hint: {meaning}"
    name = re.search(
        r"'(?:dist::)?(\w+)' (?:has not been declared|was not declared|does not name a type|is not a member)", text
    )
    header = _header_of(name[1]) if name else ""
    if name and header and header not in (ROOT / file).read_text(errors="replace"):
        return f"hint: {name[1]} is in {header}, which this file does not include."
    return ""


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
    if len(errors) == 1:
        hint = "hint: this is the only error."
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
        hint = _hint_of_types(head["text"]) or _meaning_of(head["text"], _shortened(head["file"])) or hint
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
        place = ROOT / _shortened(used[1])
        lines = place.read_text(errors="replace").splitlines() if place.is_file() else []
        line = lines[int(used[2]) - 1].strip() if int(used[2]) <= len(lines) else ""
        shown = [*_shown(*blocks[errors[0]])[:1], f"because of {_shortened(used[1])}:{used[2]}: {line}".rstrip(": ")]
        hint = _meaning_of(blocks[errors[0]][0]["text"], _shortened(used[1])) or hint
    return ["wrong: it does not compile", *(f"  {line}" for line in shown[: LINES - 2]), hint]
