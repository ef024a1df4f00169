"""What a C++ file says, without its comments and strings."""

from __future__ import annotations

import re

FEW = 8  # more than is cut off if each rank loses a fraction

_PIECE = re.compile(r"""(//(?:[^\\\n]|\\.|\\\n)*|/\*.*?(?:\*/|\Z))|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""", re.S)


def code_of(text: str) -> str:
    """Comments become a space, and strings lose what is in them. Lines keep their numbers."""

    def replaced(piece: re.Match[str]) -> str:
        return " " + "\n" * piece[1].count("\n") if piece[1] else piece[2][0] * 2

    return _PIECE.sub(replaced, text)


def static_variable(code: str) -> str:
    """The name of what outlives a call, other than a constant or a function; empty if nothing does."""
    found = re.search(
        r"\b(?:(?:static|inline|thread_local)\s+)+(?!const|static|inline|thread_local)"
        r"[\w:<>,*&\s]+?[\w>&*]\s+(\w+)\s*(?:[;={]|\[|\([^()]+(?:\([^()]*\)[^()]*)*\)\s*;)",
        code,
    )
    return found[1] if found else ""


def copies_elements(code: str) -> bool:
    """Whether a memcpy is given a number that is not said to be of bytes."""
    return any(not re.search("sizeof|bytes", call) for call in re.findall(r"\bmemcpy\s*\([^;]*;", code))


def mirrors_negatives(code: str) -> bool:
    """Whether abs is given ranks, steps or chunks."""
    return bool(re.search(r"\babs\s*\([^;]*\b(?:rank|step|chunk|index)", code))


def copies_span(code: str) -> bool:
    """Whether a vector is made from the numbers of the span that the caller gave."""
    return bool(re.search(r"vector<float>\s+\w+\s*[({]\s*(?:data|in|out)\s*\.\s*begin|=\s*std::vector", code))


def assigned_span(code: str) -> str:
    """The name of a span, a parameter or of a loop, to which another variable or span is assigned."""
    for name in re.findall(r"\bspan<float>&?\s+(\w+)\s*[,):]", code):
        for value in re.findall(rf"(?:^|[;{{}}])\s*{name}\s*=\s*(\w+|[\w:<>]*\bspan\b[^;]*);", code):
            if not re.match(rf"(?:[\w:<>]*\bspan[({{]\s*)?{name}\b", value):  # a part of itself
                return str(name)
    return ""


def rest_of_block(code: str) -> str:
    """What comes before the } that ends the block of the first character."""
    depth = 0
    for place, character in enumerate(code):
        depth += (character == "{") - (character == "}")
        if depth < 0:
            return code[:place]
    return code


def outlives_its_vector(code: str) -> str:
    """The name of a vector of which a span is returned, or kept when the vector's block has ended."""
    for made in re.finditer(r"\bvector<[\w:<>]+>\s+(\w+)", code):
        name, before, block = made[1], code[: made.start()], rest_of_block(code[made.end() :])
        returned = rf"return\s+(?:std::)?span(?:<[^;{{}}]*?>)?\s*[({{]\s*{name}\b(?!\s*\.)"
        for use in re.finditer(rf"(?:{returned}|(\w+)\s*=\s*{name}\s*;)", block):
            is_here = block.count("{", 0, use.start()) == block.count("}", 0, use.start())
            if is_here and (use[1] is None or re.search(rf"\bspan<[^;()]*>\s+{use[1]}\s*;", before)):
                return str(name)
        of_lambda = re.search(r"->\s*(?:std::)?span<[^{};]*>\s*\{[^{}]*$", before)
        if of_lambda and re.search(rf"\breturn\s+{name}\s*;", block):
            return str(name)
    return ""


def reads_before_wait(code: str) -> bool:
    """Whether the buffer of a receive is copied between its start and the next wait."""
    for begin in re.finditer(r"\b(?:MPI_Irecv\s*\(\s*|irecv\s*(?:<\w+>)?\s*\([^,]*,\s*)(\w+)", code):
        rest = code[begin.end() :]
        wait = re.search(r"MPI_(?:Wait|Test)|[.>]wait\s*\(", rest)
        copy = re.search(
            rf"\b(?:std::(?:ranges::)?copy(?:_n)?|memcpy)\s*\([^;]*\b{begin[1]}\b[^;]*;|\b{begin[1]}\s*\[", rest
        )
        if copy and (wait is None or copy.start() < wait.start()):
            return True
    return False


def waits_after_loop(code: str) -> bool:
    """Whether a loop sends and receives in each step, and waits for none before its end."""
    for begin in re.finditer(r"\bfor\s*\([^{};]*;[^{};]*;[^{}]*\)\s*\{", code):
        body = rest_of_block(code[begin.end() :])
        receives = re.search(r"\b(?:MPI_Irecv|irecv)\b", body)
        sends = re.search(r"\b(?:MPI_I?[sS]end|i?send)\b\s*(?:<\w+>)?\s*\([^;]*chunk", body)
        if receives and sends and not re.search(r"[wW]ait|MPI_Test", body):
            return True
    return False


def likely_mistake(code: str, seen: str) -> str:
    """The hint for a mistake that the text of a wrong solution shows, if it shows one; `seen` is what went wrong."""
    if name := assigned_span(code):
        return (
            f"`{name} = ...` lets the span point elsewhere, and copies no number: copy with "
            f"std::ranges::copy(..., {name}.begin())."
        )
    if re.search(r"MPI_(?:Send|Recv)_init\b", code) and not re.search(r"MPI_Start(?:all)?\b", code):
        return "MPI_Send_init and MPI_Recv_init only prepare: MPI_Start begins to send or to receive."
    if "MPI_BYTE" in code and "of which" in seen and not re.search(r"size_bytes|sizeof|\b4\b", code):
        return "n of MPI_BYTE are n bytes, and a float has 4: use MPI_FLOAT, or a count of bytes, size_bytes()."
    if "`out` has changed" in seen and "MPI_Sendrecv_replace" in code:
        return "MPI_Sendrecv_replace receives into the array that it sends: copy `out` to `in`, and use it on `in`."
    if again := started_twice(code):
        return f"two operations are started with {again}: the second one overwrites it, and nobody waits for the first."
    if waits_after_loop(code):
        return (
            "a step starts its receive, and nothing in the step waits for it: the next step sends what has not arrived "
            "yet."
        )
    started = len(re.findall(r"\bMPI_Start\s*\(", code))
    if 0 < started < len(re.findall(r"\bMPI_(?:Send|Recv)_init\s*\(", code)) and "MPI_Startall" not in code:
        return "MPI_Send_init and MPI_Recv_init only prepare, and MPI_Start begins one of them: start each."
    if re.search(r"\bchunk_range\s*\(\s*(?:static_cast<[\w:]+>\(\s*)?(?:size|ranks|n_?ranks|comm\.size\(\))", code):
        return "chunk_range takes the number of elements first, then that of chunks, then the chunk's own number."
    divides = r"\bdata\.size\(\)\s*/\s*(?:static_cast<[\w:]+>\()?(?:size|ranks|n|comm\.size)\b"
    if re.search(divides, code) and "of which" in seen:
        return (
            "data.size() / N is rounded down: if N does not divide it, the first chunks have one element more. Take "
            "each chunk's own size."
        )
    if name := outlives_its_vector(code):
        return (
            f"the vector `{name}` is gone when its block or function has ended, and a span of it owns no numbers: "
            "return or keep the vector itself."
        )
    if reads_before_wait(code):
        return "it copies from a buffer before the wait for its receive: until that has returned, it may hold anything."
    if found := re.search(r"\b(?:out|in|data)\.data\(\),[^;]*?\b(MPI_(?:DOUBLE|INT|LONG|UINT64_T|INT64_T))\b", code):
        return f"the spans are of float, so the type is MPI_FLOAT: {found[1]} is another type, of another size."
    if re.search(r"\bcopy_n\s*\([^;]*size_bytes", code):
        return "std::copy_n counts elements: size_bytes() is four times the size() of floats."
    if "[order]" in seen and re.search(r"vector<double>|\bdouble\s+\w*sum", code):
        return "the sums must be floats, too: additions in double round differently, and the contract asks for bits."
    if re.search(r"\bclock\s*\(\s*\)|CLOCKS_PER_SEC|CLOCK_(?:PROCESS|THREAD)_CPUTIME", code):
        return "std::clock counts processor time, which is not the time that passes: use std::chrono::steady_clock."
    if found := re.search(r"\bauto\s+(\w+)\s*=\s*0\s*;", code):
        if re.search(rf"\b{found[1]}\s*\+=\s*[^;]*(?:\.\d|std::(?:log|abs|exp)|/|\bseconds\b|_ms\b)", code):
            return f"`auto {found[1]} = 0` is an int, which keeps no fractions: write 0.0."
    if re.search(r"vector<(?:double|float)>\s+\w+\(\s*sum\s*,", code):
        return "vector<double> v(a, b) has a elements, each equal to b; v{a, b} has the elements a and b."
    if re.search(r"gradients\s*(?:\.\s*front\s*\(\s*\)|\[\s*0\s*\])\s*\.\s*(?:data|begin)\b", code):
        return "the gradients may lie anywhere in memory, not one after another: copy each into the message, and back."
    is_unsigned = re.search(r"\bsize_t\b|\btaken\b|\.size\(\)|\bunsigned\b", code)
    wraps = re.search("not returned|out of memory|never becomes false|length_error|bad_alloc", seen)
    if is_unsigned and wraps and re.search(r"[\w)\]]\s*-\s*[\w(]|--\w|\w--|-=", code):
        return (
            "look for an unsigned underflow: std::size_t has no negative numbers, so 3 - 5 is 18446744073709551614, "
            "and i >= 0 is always true. Compare before you subtract."
        )
    if "already returned" in seen and re.search(r"\b(?:recv|MPI_Recv)\b[^;]*;\s*(?:return|break)\s*;", code):
        return (
            "a rank that has received ends at once, and others wait for what it has to send: let it go on with the "
            "loop."
        )
    if re.search("not returned|its stack|Segmentation", seen):
        for name, body in re.findall(r"^inline [\w:<>]+ (\w+)\((?:.*?)\) \{(.*?)^\}", code, re.M | re.S):
            if re.search(rf"(?<![.:>\w]){name}(?:<\w+>)?\s*\(", body):
                return f"{name} calls itself. Does that ever end?"
    if found := re.search(r"(\w[\w\[\].]*\.values)\s*=(?!=)[^;]*\b(?:subspan|span|first|last)\b", code):
        return (
            f"`{found[1]} = ...` lets the span point elsewhere, and copies no number: the gradients themselves must "
            "get the averages."
        )
    if leaves_by_its_numbers(code):
        return (
            "a rank returns early because of the numbers that it has. Other ranks have others, and go on to the "
            "messages: all must take part, whatever their numbers."
        )
    if name := grows_with_each_call(code):
        return f"the static `{name}` still holds what the call before has put in: let it be a local variable."
    if name := reserved_only(code):
        return f"reserve gives `{name}` room and no elements, so its size() is still 0: give it a length, or push_back."
    if "was written in its place" in seen and re.search(r"\brename\b", code):
        return (
            "the rename must come last: close the stream before it, and look whether it is still good. Until then, "
            "bytes wait in memory, and are written into the new file."
        )
    if re.search(r"\bnccl\w+\s*\([^;]*size_bytes", code):
        return "NCCL counts elements, numel(), not bytes."
    whole = r"(?:std::)?(?:u?int\d*_t|size_t|u?int|long)"
    cut = (
        rf"static_cast<{whole}>\([^()]*[\[*]|static_cast<{whole}>\(sum\)|(?:vector|array|all_reduce|plus)<{whole}\b|"
        rf"\b{whole} (?:sum|total|mean|value)\b"
    )
    numbers = re.search(r"(?:element \d+|the mean) is (-?\d+(?:\.\d+)?), expected (-?\d+(?:\.\d+)?)", seen)
    if (
        numbers
        and numbers[2] != "1"
        and abs(  # 1: all numbers are ones
            float(numbers[1]) - float(numbers[2])
        )
        < FEW
        and re.search(cut, code)
    ):
        return "the numbers have fractions, which a type of whole numbers cuts off: which type do they pass through?"
    spans = re.search(
        r"(?:auto|std::vector<std::span<float>>)\s+(\w+)\s*(?:=\s*gradients|[({]\s*gradients\s*[)}])\s*;", code
    )
    if spans:
        return (
            f"`{spans[1]}` is a copy of the spans, which refer to the same numbers as before: what is kept needs "
            "numbers of its own, a std::vector<float>."
        )
    for moved in re.finditer(r"\(std::move\((\w+)\)\)\s*[,{]", code):
        if re.search(rf"(?<![:\w.]){moved[1]}\b(?!\()", code[moved.end() :].partition("\n  }\n")[0]):
            return f"`{moved[1]}` is empty after std::move({moved[1]}): use the member that it was moved to."
    if re.search(r"sizeof\s*\(?\s*(?:state|TrainingState)\b|\(\s*&\s*state\s*\)", code):
        return (
            "the bytes of a vector object are addresses, not its numbers: write each vector's data(), and its length."
        )
    if name := refers_to_argument(code):
        return (
            f"`{name}` is a reference to a parameter that was passed by value, and that is gone when the constructor "
            "has returned: keep the object itself, not a reference."
        )
    return ""


def started_twice(code: str) -> str:
    """The request that two operations write, without a wait between them."""
    place: dict[str, int] = {}
    for call in re.finditer(r"\bMPI_I(?:send|recv)\s*\([^;]*?(&\s*\w+(?:\[\w+\])?)\s*\)\s*[;)]", code):
        name = re.sub(r"\s", "", call[1])
        if name in place and not re.search(r"\bMPI_(?:Wait|Test)", code[place[name] : call.start()]):
            return name
        place[name] = call.end()
    return ""


def leaves_by_its_numbers(code: str) -> bool:
    """Whether a rank returns early because of the numbers that it has."""
    condition = r"\b(?:all_of|any_of|none_of|find_if(?:_not)?|max_element|isnan|isfinite|accumulate|reduce)\b"
    early = rf"\bif\s*\([^;{{}}]*{condition}(?:[^;{{}}]|\{{[^{{}}]*\}})*\)\s*\{{?\s*return\b"
    found = re.search(early, code)
    return bool(found and re.search(r"\ball_reduce\b|\bMPI_\w+\s*\(", code[found.end() :]))


def refers_to_argument(code: str) -> str:
    """The member that is a reference to a parameter that a constructor takes by value."""
    for name in re.findall(r"^\s*(?:const\s+)?[\w:<>]+(?:\s+const)?\s*&\s*(\w+)\s*;", code, re.M):
        taken = re.search(rf"\b{name}\s*[({{]\s*(\w+)\s*[)}}]", code)
        if taken and re.search(rf"[(,]\s*(?:const\s+)?[\w:]+(?:<[\w:<>, ]*>)?\s+{taken[1]}\s*[,)]", code):
            return str(name)
    return ""


def grows_with_each_call(code: str) -> str:
    """The name of a static vector to which elements are added, and which is never emptied."""
    for name in re.findall(r"\b(?:static|thread_local)\s+(?:std::)?vector<[\w:<>]+>\s+(\w+)", code):
        adds = rf"\b{name}\s*\.\s*(?:push_back|emplace_back|insert|append_range)\b"
        empties = rf"\b{name}\s*(?:\.\s*(?:clear|assign|erase|resize|swap)\b|=[^=])|move\({name}\)"
        if re.search(adds, code) and not re.search(empties, code):
            return str(name)
    return ""


def reserved_only(code: str) -> str:
    """The name of a vector that gets room by reserve, and whose elements are then used."""
    for name in re.findall(r"\b(\w+)\.reserve\(", code):
        if not re.search(rf"\b{name}\s*\.\s*(?:push_back|emplace_back|insert|resize|assign|append)\b", code):
            return str(name)
    return ""


def negative_remainder(code: str) -> str:
    """A remainder of a difference to which nothing is added, such as (rank - 1) % size."""
    found = re.search(r"\((?:[^()%+]|\(\))*\s-\s(?:[^()%+]|\(\))*\)\s*%\s*\w[\w.]*(?:\(\))?(?![\w.(])(?!\s*\+)", code)
    return re.sub(r"\s+", " ", found[0]) if found else ""


THREAD = (
    "it starts a thread: MPI calls of several threads are in no fixed order, and all ranks need the same one. Two "
    "calls at once need MPI_THREAD_MULTIPLE, for which these programs do not ask."
)


def starts_thread(code: str) -> bool:
    return bool(re.search(r"\bstd::(?:async|j?thread)\b", code))


def remarks(code: str) -> list[str]:
    """What may be wrong, by its text, in a solution that is."""
    found = []
    if "MPI_Waitany" in code:
        found.append("MPI_Waitany waits for one of the operations, and MPI_Waitall for all of them.")
    if remainder := negative_remainder(code):
        found.append(
            f"look at {remainder}. In C++, (0 - 1) % 4 is -1; with std::size_t, 0 - 1 is 18446744073709551615, whose "
            "remainder is right only if the divisor is a power of two. Add the divisor first."
        )
    if copies_elements(code):
        found.append("memcpy counts bytes: n floats are n * sizeof(float).")
    if mirrors_negatives(code):
        found.append(
            "abs turns -1 into 1. On a ring of N ranks, -1 stands for N - 1: add N, then take the remainder of N."
        )
    if starts_thread(code):
        found.append(THREAD)
    if re.search(r"static_cast<(?:std::)?(?:size_t|uint\w+|unsigned)>\(\w+\)\s*%", code):
        found.append(
            "an unsigned -1 is 18446744073709551615, whose remainder is right only if the divisor is a power of two: "
            "add the divisor before the conversion."
        )
    return found


def is_started(text: str) -> bool:
    """Whether the stub's own line is gone from the code."""
    return not re.search(r"\bnot_started\s*\(\s*\)\s*;", code_of(text))
