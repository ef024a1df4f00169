"""What does not compile gets one short answer that names a line of the reader's file: brackets, quotes and
semicolons of a solution left out, one after another, and larger damage."""

import concurrent.futures
import pathlib
import re
import subprocess
import sys

import pytest

from commands import ROOT

sys.path.insert(0, str(ROOT / "tools/exercises"))
import compile_errors  # noqa: E402
import exercises  # noqa: E402

EXCHANGE = exercises.exercise_of("1", "exchange")
RIGHT = exercises.reference(EXCHANGE)
FLAGS = [
    "-std=c++20",
    "-fsyntax-only",
    "-fmax-errors=5",
    *subprocess.run(["mpicxx", "--showme:compile"], capture_output=True, text=True).stdout.split(),
]


def answer_to(text: str, folder: pathlib.Path) -> list[str]:
    """The lines of the answer; empty if it compiles."""
    file = folder / EXCHANGE.folder / "exercise/exchange.hpp"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    (folder / "x_adapter.cpp").write_text(exercises.adapter(EXCHANGE))
    done = subprocess.run(
        ["c++", *FLAGS, f"-I{folder}", f"-I{ROOT}", folder / "x_adapter.cpp"],
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=15,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
    )
    lines = compile_errors.in_words(done.stderr, EXCHANGE.name, EXCHANGE.function)
    assert bool(lines) == (done.returncode != 0), f"{text}\n{done.stderr}"
    return lines


def expect_short(lines: list[str], says: str = "01_send_recv/exercise/exchange.hpp:") -> None:
    assert lines[0] == "wrong: it does not compile" and lines[-1].startswith("hint: ")
    assert len(lines) <= 10 and max(map(len, lines)) < 400
    assert says in "\n".join(lines), lines


PLACES = [match.start() for match in re.finditer(r"""[][(){}<>;"']""", RIGHT)]


OF_EACH_KIND = [*{RIGHT[place]: place for place in PLACES}.values()]  # the last one


@pytest.mark.parametrize(
    "places", [OF_EACH_KIND, pytest.param(PLACES, marks=pytest.mark.long)], ids=["of each kind", "every"]
)
def test_brackets_quotes_and_semicolons_left_out(places: list[int], tmp_path: pathlib.Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda at: answer_to(RIGHT[:at] + RIGHT[at + 1 :], tmp_path / str(at)), places))
    assert len(answers) > 5
    for place, lines in zip(places, answers):
        if lines:
            expect_short(lines)
        else:  # what a comparison is without it
            assert RIGHT[place] in "<>;", RIGHT[place - 30 : place + 30]


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("void exchange", "void exchang", "the check calls  void exchange(const Communicator&, int, "),
        ("int peer", "unsigned& peer", "the check calls  void exchange("),
        ("inline void", "inline int", "exchange"),
        (RIGHT, "", "the check calls  void exchange("),
        ("namespace dist::exercise", "namespace mine", "01_send_recv/exercise/exchange.hpp:"),
        ("\n".join(re.findall("#include .*", RIGHT)), "", "01_send_recv/exercise/exchange.hpp:"),
        ("#include <mpi.h>", "#include <mpi2.h>", "mpi2.h: No such file"),
        ("MPI_Sendrecv(", "MPI_Sendrcv(", "01_send_recv/exercise/exchange.hpp:"),
        ("inline void", "/* inline void", "unterminated comment"),
        ("inline void", "#if 1\ninline void", "unterminated #if"),
        ("inline void", "inline std::vector<int&> bad;\ninline void", "exchange.hpp:"),
    ],
)
def test_larger_damage(old: str, new: str, says: str, tmp_path: pathlib.Path) -> None:
    assert old in RIGHT, RIGHT
    expect_short(answer_to(RIGHT.replace(old, new, 1), tmp_path), says)


@pytest.mark.parametrize(
    "line, hint", [("}  // namespace dist::exercise", "one of its { has no }"), ("}", "must end with a return")]
)
def test_a_missing_return_and_a_missing_brace_are_told_apart(line: str, hint: str) -> None:
    log = (
        f"/x/01_send_recv/exercise/a.hpp:9:1: error: control reaches end of non-void function [-W]\n"
        f"    9 | {line}\n      | ^\n"
    )
    lines = compile_errors.in_words(log, "a", "int()")
    expect_short(lines, "a.hpp:9: control reaches end")
    assert hint in lines[-1]


def test_what_is_not_the_readers_mistake_gets_no_answer() -> None:
    log = "/usr/include/x.h:1:2: error: no\nninja: build stopped"
    assert compile_errors.in_words(log, EXCHANGE.name, EXCHANGE.function) == []


@pytest.mark.parametrize(
    "call, reason, hint",
    [
        ("send(comm, numbers, 1)", "is not derived from", "name the type of the elements: send<char>(...)"),
        ("send<const float>(comm, out, 1)", "constraints not satisfied", "without const: send<float>(...)"),
        ("recv<float>(comm, out, 1)", "could not convert", "`out` may only be read"),
    ],
)
def test_a_type_that_does_not_fit(call: str, reason: str, hint: str, tmp_path: pathlib.Path) -> None:
    body = f"{{\n  std::vector<char> numbers(4);\n  {call};\n}}\n\n}}  // namespace"
    text = re.sub(r"\{\n  MPI_CHECK.*\}  // namespace", lambda _: body, RIGHT, count=1, flags=re.S)
    text = text.replace(
        "#include <mpi.h>", '#include "01_send_recv/send_recv.hpp"\n#include <vector>\n#include <mpi.h>'
    )
    lines = answer_to(text, tmp_path)
    expect_short(lines)
    assert reason in "\n".join(lines) and hint in lines[-1], lines


@pytest.mark.parametrize(
    "lines_of_code, hint",
    [
        ("MPI_Send(out, 1, MPI_FLOAT, peer, 0, comm.get());", "which x.data() gives"),
        ("const auto t = std::chrono::steady_clock::now(); const double s = t - t;", ".count() is its seconds"),
        ("std::ofstream file; file.write(in.data(), 4);", "reinterpret_cast<const char*>(p)"),
        ("for (int i : peer) { in[i] = 0; }", "for (std::size_t k = 0; k < n; ++k)"),
        ("out[0] = 1;", "it changes what is const"),
        ("struct S { int a, b; }; S s{.b = 1, .a = 2};", "in which the struct declares"),
        ("struct S { int& a; S(int& b) { a = b; } }; S s(peer);", "bound before the body"),
        ("std::vector<float> v(2); window(std::span(v), 1);", "window is in 02_broadcast/chunks.hpp"),
        ("accumulate<float>(ReduceOp::sum, in, out);", "is in 03_all_reduce/reduce_op.hpp"),
        ("in[0] = 1 +;", "the only error"),
    ],
)
def test_what_a_compilers_error_means(lines_of_code: str, hint: str, tmp_path: pathlib.Path) -> None:
    body = f"{{\n  {lines_of_code}\n}}\n\n}}  // namespace"
    text = re.sub(r"\{\n  MPI_CHECK.*\}  // namespace", lambda _: body, RIGHT, count=1, flags=re.S)
    text = text.replace(
        "#include <mpi.h>", "#include <mpi.h>\n#include <chrono>\n#include <fstream>\n#include <vector>"
    )
    lines = answer_to(text, tmp_path)
    expect_short(lines)
    assert hint in lines[-1], lines
