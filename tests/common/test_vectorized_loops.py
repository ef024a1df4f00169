"""The compiler has vectorized the hot loops of ddp_training.

Compilers vectorize a loop or not without a word, results are the same bits either way, and only a
clock sees the difference. What counts as a loop is the code between a conditional jump backwards
and its target.
"""

import collections
import pathlib
import platform
import re
import shutil

import pytest
from programs import BUILD, CACHE, EMULATED, SANITIZED, command

pytestmark = pytest.mark.quick

# A function, and an instruction on vectors that one of its loops must contain. Most of the names
# are those of parallel_for's bodies, each of which has a function of its own (vectorized_loop.hpp).
HOT = {
    r"OnPart<.*UpdateBlock<4096.*AdamStep": "sqrtps",
    r"OnPart<.*UpdateBlock<4096.*SgdStep": "mulps",
    r"OnPart<.*UpdateBlock<4096.*SgdMomentumStep": "mulps",
    r"AddBias>": "addps",
    r"ReluBackward>": r"cmp\w*ps",
    r"ColumnSums<128": "addps",
    r"AddTo>": "addps",
    r"Scale>": "mulps",
    r"OnPart<.*CheckBlock<4096": r"cmp\w*ps",
    r"OnPart<.*SquaresOfBlock>": "mulpd",
    r"<.*Round>": r"(paddd|psr[la]d)",
    r"shared_memory::reduce<float>": "addps",
    r"accumulate<float>|all_reduce_recursive_doubling<float>": "addps",
}
# Functions whose loops may use scalars.
SCALAR = {
    r"SoftmaxCrossEntropy|SumUp": "exp and log are calls, one number each, whose bits are promised",
    r"CountHits": "looks for the position of the largest of a few numbers, when testing",
    r"OnParts|(Update|Check)Block<1|ColumnSums<1|SquaresOfThread": "one number per thread of a GPU",
    r"SumOfParts": "adds up in a fixed order, one number per 1024",
    r"uniform|normal|init_linear": "random numbers come one after the other, before the first step",
    r"stroke|digit|glyph": "draws the data set, before the first step",
}
Code = list[tuple[int, str, str]]
ARITHMETIC = r"v?((add|sub|mul|sqrt)ss|fn?m(add|sub)(132|213|231)ss)$"


def functions_of(path: pathlib.Path) -> dict[str, Code]:
    """name -> [(address, instruction, operands)]"""
    functions = collections.defaultdict(list)
    name = None
    for line in command(f"objdump -d -C --no-show-raw-insn {path}").out.splitlines():
        title = re.match(r"[0-9a-f]+ <(.*)>:$", line)
        code = re.match(r"\s+([0-9a-f]+):\s+(\w+)\s*(.*)", line)
        if title:
            name = title[1]
        elif code and name:
            functions[name].append((int(code[1], 16), code[2], code[3]))
    return functions


def innermost_loops(code: Code) -> list[list[str]]:
    """The instructions of each loop that contains no other loop."""
    places = {address: place for place, (address, _, _) in enumerate(code)}
    loops = []
    for end, (_, instruction, operands) in enumerate(code):
        target = re.match(r"[0-9a-f]+", operands)
        if re.match("j(?!mp)", instruction) and target:
            begin = places.get(int(target[0], 16), end + 1)
            if begin <= end:
                loops.append((begin, end))
    return [
        [instruction for _, instruction, _ in code[begin : end + 1]]
        for begin, end in loops
        if not any(begin <= b and e <= end and (b, e) != (begin, end) for b, e in loops)
    ]


# Debug builds use no vectors, and nobody waits for an emulated GPU.
@pytest.mark.skipif(
    platform.machine() != "x86_64" or not shutil.which("objdump"), reason="reads x86-64 instructions with objdump"
)
@pytest.mark.skipif(
    "CMAKE_BUILD_TYPE:STRING=Release" not in CACHE or SANITIZED or EMULATED, reason="the build is not for normal use"
)
def test_hot_loops_use_vectors() -> None:
    vectorized, wrong = set(), []
    for name, code in functions_of(BUILD / "bin/ddp_training").items():
        loops = innermost_loops(code)
        calls = " ".join(operands for _, each, operands in code if each.startswith("call"))

        def has(instruction: str, loops: list[list[str]] = loops) -> bool:
            return any(re.match(f"v?{instruction}", each) for loop in loops for each in loop)

        # Without an instruction for std::fma, vectors cannot help; vectorized_loop.hpp has
        # versions of the loop for other processors.
        if "<fmaf" in calls:
            continue
        for function, instruction in HOT.items():
            passes_on = re.search("launch<|for_each_index<|why_no_kernel<", name) or re.search(function, calls)
            if loops and re.search(function, name) and not passes_on:
                if has(instruction):
                    vectorized.add(function)
                else:
                    wrong.append(f"no {instruction} in a loop of {name}")
        scalar = any(re.match(ARITHMETIC, each) for loop in loops for each in loop)
        if scalar and not has(r"\w+p[sd]$"):
            if not any(re.search(function, name) for function in SCALAR):
                wrong.append(f"float32 arithmetic without vectors in a loop of {name}")
    wrong += [f"no loop found: {function}" for function in HOT if function not in vectorized]
    assert wrong == []
