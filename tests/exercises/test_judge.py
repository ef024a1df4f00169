"""What the judge says of a run: whom it names, which hint it chooses, and how it is laid out."""

import os
import pathlib
import re
import sys
import time

import pytest

from commands import BUILD, ROOT, command

sys.path.insert(0, str(ROOT / "tools/exercises"))
import beside  # noqa: E402
import hang_hints  # noqa: E402
import job  # noqa: E402
import judge  # noqa: E402
import source_text  # noqa: E402
from job import Run  # noqa: E402

ALL = hang_hints.places("0 2\n0 1\n0 3\n0 0\n")  # ranks 0 to 3 of the world
HALVES = hang_hints.places("0 0\n1 1\n0 1\n1 0\n")


def report(places: list[hang_hints.Place], *lines: str) -> list[str]:
    return hang_hints.judged("\n".join(f"[1,0]<stderr>:hang: {line}" for line in lines), places)


def test_a_report_names_the_ranks_that_are_judged_and_begins_a_cycle_with_the_lowest() -> None:
    assert report(
        ALL,
        "rank 0 in MPI_Send to 1 (4 B, tag 0); rank 1 in MPI_Send to 3 (4 B, tag 0); "
        "rank 3 in MPI_Send to 0 (4 B, tag 0): cycle 0 -> 1 -> 3 -> 0",
        "ranks 0, 2 are in MPI_Barrier #1; rank 3 never entered it",
        "nothing has moved on this host for 2 s (--timeout)",
    ) == [
        "hang: rank 0 in MPI_Send to 2 (4 B, tag 0); rank 2 in MPI_Send to 1 (4 B, tag 0); "
        "rank 1 in MPI_Send to 0 (4 B, tag 0): cycle 0 -> 2 -> 1 -> 0",
        "hang: ranks 2, 3 are in MPI_Barrier #1; rank 0 never entered it",
    ]


def test_ranks_that_have_returned_are_told_apart_from_a_collective_of_the_solution() -> None:
    assert report(
        ALL,
        "ranks 0, 1 are in the end of the check #4; ranks 2, 3 never entered it",
        "ranks 0, 1 are in MPI_Barrier #9; ranks 2, 3 never entered it",
        "rank 2 in MPI_Recv from 3 (4 B, tag 0)",
        "rank 3 has made no MPI call for 2.1 s, and none before",
    ) == [
        "hang: rank 0 has made no MPI call for 2.1 s, and none before",
        "hang: rank 3 in MPI_Recv from 0 (4 B, tag 0)",
        "hang: ranks 1, 2 have already returned, ranks 0, 3 have not",
    ]


def test_of_groups_only_the_one_that_hangs_is_named() -> None:
    assert report(
        HALVES,
        "ranks 0, 2 are in the end of the check #4; ranks 1, 3 never entered it",
        "ranks 0, 2 are in MPI_Allgather #2 (4 B); ranks 1, 3 never entered it",
        "rank 1 in MPI_Recv from 3 (4 B, tag 0)",
        "rank 3 in MPI_Recv from 1 (4 B, tag 0)",
    ) == ["hang: rank 1 in MPI_Recv from 0 (4 B, tag 0)", "hang: rank 0 in MPI_Recv from 1 (4 B, tag 0)"]
    assert report(HALVES, *(f"rank {rank} in MPI_Recv from {(rank + 2) % 4} (4 B, tag 0)" for rank in range(4))) == [
        "hang: rank 0 in MPI_Recv from 1 (4 B, tag 0)",
        "hang: rank 1 in MPI_Recv from 0 (4 B, tag 0)",
    ]


@pytest.mark.parametrize(
    "lines, kind",
    [
        (["rank 1 has made no MPI call for 2.0 s, last call MPI_Send to 2", "rank 0 in MPI_Barrier #1"], "loop"),
        (["rank 0 in MPI_Send to 1 (4 B, tag 0); rank 1 in MPI_Ssend to 0 (4 B, tag 0): cycle 0 -> 1 -> 0"], "sends"),
        (
            ["rank 0 in MPI_Recv from 1 (4 B, tag 0); rank 1 in MPI_Recv from 0 (4 B, tag 0): cycle 0 -> 1 -> 0"],
            "receives",
        ),
        (
            [
                "rank 0 in MPI_Recv from 1 (4 B, tag 0); rank 1 in MPI_Send to 0 (4 B, tag 1): cycle 0 -> 1 -> 0",
                "rank 0 waits for tag 0 from rank 1; rank 1 has sent tag 1",
            ],
            "tag",
        ),
        (["rank 0 waits for tag 0 from rank 1; rank 1 has sent tag 0 on a different communicator"], "communicator"),
        (
            [
                "rank 0 in MPI_Wait for MPI_Irecv from 1 (4 B, tag 0); rank 1 in MPI_Recv from 0 (4 B, tag 0): "
                "cycle 0 -> 1 -> 0"
            ],
            "receives",
        ),
        (
            [
                "rank 0 in MPI_Wait for MPI_Isend to 1 (4 B, tag 0); rank 1 in MPI_Send to 0 (4 B, tag 0): "
                "cycle 0 -> 1 -> 0"
            ],
            "sends",
        ),
        (
            [
                "rank 0 in MPI_Waitall for MPI_Irecv from 1 (4 B, tag 0) and MPI_Isend to 1 (4 B, tag 0); "
                "rank 1 in MPI_Recv from 0 (4 B, tag 0): cycle 0 -> 1 -> 0"
            ],
            "hang",
        ),
        (["ranks 0, 2 are in MPI_Allreduce #1 (4 B); rank 1 never entered it"], "collectives"),
        (["rank 0 in MPI_Wait for MPI_Irecv from 1 (4 B, tag 0)"], "hang"),
        (
            [
                "rank 0 in MPI_Sendrecv to 1 and from 1 (4 B, tag 0); rank 1 in MPI_Recv from 0 (4 B, tag 0): "
                "cycle 0 -> 1 -> 0"
            ],
            "hang",
        ),
    ],
)
def test_what_is_seen_in_a_report(lines: list[str], kind: str) -> None:
    assert hang_hints.kind_of(lines) == kind


@pytest.mark.parametrize("load, seconds", [(0, 2), (2, 2), (4, 2), (8, 4), (30, 15), (500, 20)])
def test_a_busy_machine_gets_more_time(load: float, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job.os, "getloadavg", lambda: (load, 0, 0))
    monkeypatch.setattr(job.os, "cpu_count", lambda: 2)
    assert job.patience() == seconds


# 4 ranks, 2 processors, a patience of 2 s on a quiet machine.
@pytest.mark.parametrize(
    "wall, processor, queued, patience, verdict",
    [
        (11, 22, 9, 2, ""),
        (13, 24.5, 9, 2, "slow"),  # both processors computed for it for 12 s
        (13, 0.1, 0, 2, "slow"),  # it sleeps
        (13, 3, 12, 2, ""),  # it waits for a processor
        (100, 3, 95, 20, ""),
        (121, 0.1, 0, 20, "slow"),
        (181, 12, 170, 20, "busy"),
        (181, 24.5, 170, 20, "slow"),
    ],
)
def test_what_is_slow_is_not_wrong(
    wall: float, processor: float, queued: float, patience: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job.os, "cpu_count", lambda: 2)
    assert job.verdict_on_time(wall, job.Work(processor, queued), 4, patience, 2) == verdict


def test_what_cannot_be_told_on_a_busy_machine_is_not_judged(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "verdict_on_time", lambda *_: "busy")
    monkeypatch.setattr(job.os, "getloadavg", lambda: (98.7, 0, 0))
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nprintf 'wrong: it must [a]\n  it did not finish\nhint: think.\n' >$2\nsleep 1000\n")
    program.chmod(0o755)
    status, answer = judge.judge([str(program)], tmp_path)
    assert status == 4 and re.fullmatch(
        r"not judged: not finished after \d+ s \(this machine is busy: load 99\)", answer
    ), answer


def test_the_processor_time_of_a_process_and_its_wait_for_one_are_counted() -> None:
    before = job.work_of([os.getpid()])
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    assert 0.2 < job.work_of([os.getpid()]).since(before).processor < 3
    assert job.work_of([2**22 + 1]) == job.Work(0, 0)  # there is none


def test_what_prints_very_much_is_judged_by_what_it_does(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nyes 'many words' | head -c 12000000\necho the end\necho done >$2\n")
    program.chmod(0o755)
    result = command(f"{ROOT}/tools/exercises/judge.py {program}", tmp_path, 120, EXERCISE_RANKS="1")
    assert result.status == 0 and re.fullmatch(r"done\n\(it printed \d\d MB, .*\)\n", result.out), result


def test_what_prints_without_end_is_not_judged(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program"
    program.write_text(
        "#!/bin/sh\nprintf 'wrong: it must [a]\n  it did not finish\nhint: think.\n' >$2\nyes 'many words'\n"
    )
    program.chmod(0o755)
    result = command(f"{ROOT}/tools/exercises/judge.py {program}", tmp_path, 120, EXERCISE_RANKS="1")
    assert result.status == 4 and re.match(r"not judged: it printed \d\d MB, .* print a few lines", result.out), result


def test_what_the_ranks_printed_is_told_from_what_mpi_and_the_watch_say_of_them() -> None:
    log = (
        "[1,2]<stdout>:before\n[1,2]<stderr>:hang: rank 0 in MPI_Recv from 1\n[1,0]<stdout>:\n"
        "-----\nmpirun detected\n[1,0]<stderr>:after\n"
        "[1,0]<stderr>:[host:123] *** Process received signal ***\n[1,0]<stderr>:[ 1] a stack\n"
    )
    assert judge.printed(log, {2: 1, 0: 3}) == ["rank 1: before", "rank 3: after"]


def test_an_answer_is_wrapped_at_the_terminals_width(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = f"wrong on 4 ranks: {'many words ' * 5}[it]\n  hang: {'a line ' * 9}\nhint: {'think ' * 12}"
    assert judge.wrapped(answer) == answer
    monkeypatch.setenv("EXERCISE_WIDTH", "50")
    monkeypatch.setenv("EXERCISE_INDENT", "33")
    lines = judge.wrapped(answer).splitlines()
    assert len(lines[0]) <= 50 - 33 and max(map(len, lines)) <= 50
    assert [line.split() for line in [" ".join(lines)]] == [answer.split()]
    assert all(line.startswith("  ") for line in lines[1:] if not line.startswith("hint: "))


@pytest.mark.parametrize(
    "text, started",
    [
        ("  not_started();\n", False),
        ("  not_started( ) ;\n", False),
        ("  // not_started();\n  return;\n", True),
        ("/* not_started(); */", True),
        ('  puts("not_started();");\n', True),
        ("  return;  // no more\n  not_started();", False),
        ('  puts("// "); not_started();', False),
        ("/* a */ not_started();", False),
    ],
)
def test_only_the_code_says_whether_an_exercise_is_started(text: str, started: bool) -> None:
    assert source_text.is_started(text) == started


@pytest.mark.parametrize(
    "code, has",
    [
        ("static int n = 0;", True),
        ("static std::vector<float> spare;", True),
        ("static float* p{};", True),
        ("static std::vector<float> in(chunk.size());", True),
        ("static std::vector<int> in(3, n);", True),
        ("static constexpr int n = 0;", False),
        ("static const int n = f();", False),
        ("static int f(int n) {", False),
        ("static_cast<int>(n) == 0;", False),
        ("static std::vector<float> f();", False),
        ("static inline float spare[100];", True),
        ("inline std::vector<float> spare;", True),
        ("thread_local int calls = 0;", True),
        ("inline constexpr int n = 0;", False),
        ("static inline const int n = 0;", False),
        ("inline void f(int n) {\n  int m = n;", False),
        ("static inline int f(int n) {", False),
    ],
)
def test_a_static_variable_is_found(code: str, has: bool) -> None:
    assert bool(source_text.static_variable(code)) == has


FLOATS = "void f(std::span<const float> out, std::span<float> in) {"
START = FLOATS + " MPI_Irecv(spare.data(), 1, MPI_FLOAT, 0, 0, comm.get(), &r); "


@pytest.mark.parametrize(
    "code, seen, words",
    [
        (FLOATS + " in = arrived; }", "", "lets the span point elsewhere"),
        (FLOATS + " std::span<float> next = in; next = spare; }", "", None),
        (FLOATS + " out = rest; }", "", None),  # this one is only read
        (START + "std::copy(spare.begin(), spare.end(), in.begin()); MPI_Wait(&r, i); }", "", "before the wait"),
        (START + "MPI_Wait(&r, i); std::copy(spare.begin(), spare.end(), in.begin()); }", "", None),
        ("std::size_t left = order.size() - taken;", "it has not returned", "unsigned underflow"),
        ("std::size_t left = order.size() - taken;", "for order [1] you take 2", None),
        ("for (int i = n - 1; i >= 0; --i) {}", "it has not returned", None),
        ("float* all = gradients.front().data();", "", "anywhere in memory"),
        ("inline void twice(int n) {\n  twice(n);\n}", "it has not returned", "twice calls itself"),
        ("  auto sums = gradients;\n", "", "`sums` is a copy of the spans"),
        ("  A(B plan) : plan_(std::move(plan)) {\n    use(plan);\n  }\n", "", "`plan` is empty after std::move"),
        ("  A(B plan) : plan_(std::move(plan)) {\n    use(plan_);\n  }\n", "", None),
        ("out.write(reinterpret_cast<const char*>(&state), sizeof state);", "", "are addresses"),
        ("inline void twice(int n) {\n  comm.twice(n);\n}", "it has not returned", None),
        (START + "std::copy(out.begin(), out.end(), sent.begin()); MPI_Wait(&r, i); }", "", None),  # another buffer
        ("MPI_Recv_init(a, 1, MPI_FLOAT, 0, 0, comm.get(), &r); MPI_Wait(&r, i);", "", "MPI_Start begins"),
        ("MPI_Recv_init(a, 1, MPI_FLOAT, 0, 0, comm.get(), &r); MPI_Start(&r);", "", None),
        ("MPI_Send(p, n, MPI_BYTE)", "4 elements, of which 1 are right", "n of MPI_BYTE are n bytes"),
        ("MPI_Send(p, 4 * n, MPI_BYTE)", "4 elements, of which 1 are right", None),
        ("MPI_Sendrecv_replace(p, n)", "element 0 of `out` has changed", "into the array that it sends"),
        ("std::copy_n(next, to.size_bytes(), to.begin());", "", "copy_n counts elements"),
        ("std::vector<double> sums;", "the mean must have the bits [order]", "sums must be floats"),
        ("const auto begin = std::clock();", "", "processor time"),
        ("const auto begin = Clock::now();", "", None),
        ("std::vector<double> both(sum, count);", "", "v{a, b}"),
        ("A(B&, std::vector<C> all) : all_(all) {}\n  const std::vector<C>& all_;", "", "was passed by value"),
        ("A(std::string path) : path_{path} {}\n  const std::string& path_;", "", "`path_` is a reference"),
        ("A(const B& comm) : comm_(comm) {}\n  const B& comm_;", "", None),
        ("A(std::string path) : path_{path} {}\n  const std::string path_;", "", None),
        ("if (std::all_of(a, b, [](float x) { return x == 0; })) return;\n all_reduce(a);", "", "returns early"),
        ("if (gradients.empty()) return;\n all_reduce(a);", "", None),
        ("all_reduce(a);\n if (std::isnan(a[0])) return;", "", None),
        ("gradients_[g].values = message.subspan(at, n);", "", "`gradients_[g].values = ...` lets"),
        ("std::vector<float> sum(static_cast<std::size_t>(a[0]));", "element 0 is 0.25, expected 1", None),
        ("std::plus<int>()", "element 1 is 6004, expected 6005", "cuts off"),
        ("auto sum = 0;\n sum += std::log(a / b);", "", "`auto sum = 0` is an int"),
        ("auto n = 0;\n n += 1;", "", None),
        ("chunk_range(static_cast<std::size_t>(size), n, c)", "", "the number of elements first"),
        ("chunk_range(data.size(), size, c)", "", None),
        ("i < data.size() / static_cast<std::size_t>(size)", "5 elements, of which 4 are right", "rounded down"),
        ("MPI_Recv_init(a); MPI_Send_init(b); MPI_Start(&r);", "", "start each"),
        ("MPI_Recv_init(a); MPI_Send_init(b); MPI_Startall(2, r);", "", None),
        (
            "for (int s = 1; s < n; ++s) { irecv<float>(a, chunk(s)); isend<float>(b, chunk(s)); } wait();",
            "",
            "arrived yet",
        ),
        ("for (int s = 1; s < n; ++s) { irecv<float>(a, chunk(s)); isend<float>(b, chunk(s)); r.wait(); }", "", None),
        ("irecv<float>(comm, got, 1); for (auto i : x) in[i] += got[i]; r.wait();", "", "before the wait"),
        ("static std::vector<float> all; all.insert(all.end(), g.begin(), g.end());", "", "static `all` still holds"),
        ("static std::vector<float> all; all.clear(); all.push_back(g);", "", None),
        ("std::vector<float> all; all.push_back(g);", "", None),
    ],
)
def test_a_likely_mistake_is_found_in_the_text(code: str, seen: str, words: str | None) -> None:
    found = source_text.likely_mistake(code, seen)
    assert words in found if words else found == ""


@pytest.mark.parametrize(
    "code, name",
    [
        ("auto f = [&] { std::vector<float> v; fill(v); return std::span<float>(v); };", "v"),
        ("auto f = [&]() -> std::span<float> { std::vector<float> v(3); return v; };", "v"),
        ("std::span<float> s; { std::vector<float> v(3); s = v; } use(s);", "v"),
        ("std::vector<float> v(3); auto f = [&] { return std::span(v); }; use(f());", ""),
        ("std::vector<float> v(3); if (x) { return std::span(v).size(); }", ""),
        ("std::span<float> s; std::vector<float> v(3), w; w = v;", ""),
    ],
)
def test_a_span_of_a_vector_that_is_gone_is_found(code: str, name: str) -> None:
    assert source_text.outlives_its_vector(code) == name


def test_a_remark_is_made_of_the_text() -> None:
    (remark,) = source_text.remarks("auto f = std::async([] { all_reduce(); });")
    assert remark.startswith("it starts a thread")
    assert source_text.remarks("for (float x : data) sum += x;") == []


def test_a_memcpy_that_counts_elements_is_found() -> None:
    assert source_text.copies_elements("std::memcpy(to, from, each.size());")
    assert not source_text.copies_elements("memcpy(to, from, n * sizeof(float)); memcpy(a, b, c.size_bytes());")


def test_a_hang_is_shown_with_the_arguments_at_which_the_slowest_rank_is(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job.subprocess, "Popen", lambda *words, **options: None)
    monkeypatch.setattr(job.Job, "read", lambda self, log: None)
    (tmp_path / "verdict.call3").write_text("1 of an earlier run\n")
    one = job.Job(tmp_path, "2", ["program"])
    assert one.slowest_call() == ""
    for rank, text in enumerate(["12 root 1, 4 elements\n", "9 root 0, 97 elements\n"]):
        (tmp_path / f"verdict.call{rank}").write_text(text)
    assert one.slowest_call() == "root 0, 97 elements"
    (tmp_path / "verdict.call1").write_text("9 root")  # it was killed
    assert one.slowest_call() == ""
    verdict = "wrong on 2 ranks: it must [values]\n  it did not finish\nhint: think.\n"
    run = Run("2", 1, verdict, "", "", hang_hints.places("0 0\n0 1\n"), "root 0, 97 elements")
    assert judge.answer_to(run, None).splitlines()[1] == "  it was called with root 0, 97 elements"


def test_all_checks_passed_and_a_status_other_than_0_is_not_done(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"  # rank 0 writes the verdict; mpirun kills the others once it has failed
    program.write_text('#!/bin/sh\nif [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then echo done >$2; exit $STATUS; fi\n')
    program.chmod(0o755)
    for status, verdict in ("0", 0), ("3", 1):
        monkeypatch.setenv("STATUS", status)
        assert judge.judge([str(program)], tmp_path)[0] == verdict


def test_the_costs_that_are_shown_are_those_on_4_ranks(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Done:
        def __init__(self, folder: pathlib.Path, setting: str, words: list[str]) -> None:
            self.setting = setting

        def finish(self) -> Run:
            return Run(self.setting, 0, f"done\nmessages on {self.setting}\n", "", "", [])

        def kill(self) -> None:
            pass

    monkeypatch.setattr(judge, "Job", Done)
    assert judge.judge(["exercise_01_exchange"], tmp_path) == (0, "done\nmessages on 4")


# What a program in place of a solution's writes, and the answer of judge.py. $2 is the verdict's file.
ODD = [
    (
        r"printf 'wrong: \377\033[2J\n  it did \001 not\nhint: think.\n' >$2",
        "wrong: \\xff\\x1b[2J\n  it did \\x01 not\nhint: think.\n",
    ),
    (
        "printf 'wrong: it must [a]\\n  it did not finish\\nhint: think.\\n' >$2; kill -SEGV $$",
        "wrong: it must [a]\n  it crashed: Segmentation fault\nhint: " + judge.OVERFLOW + "\n",
    ),
    (
        "printf 'wrong: it must [a]\\n  it did not finish\\nhint: think.\\n' >$2\n"
        "echo '[rank 0] fatal: the verdict cannot be written: File too large' >&2; exit 1",
        "wrong: it must [a]\n  the verdict cannot be written: File too large\nhint: " + judge.CANNOT_WRITE + "\n",
    ),
]


@pytest.mark.parametrize("script, answer", ODD)
def test_what_a_solution_does_never_spoils_the_answer(script: str, answer: str, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/bash\n{script}\n")
    program.chmod(0o755)
    result = command(f"{ROOT}/tools/exercises/judge.py {program}", tmp_path, EXERCISE_RANKS="1")
    assert (result.out + result.err).startswith(answer) and result.err == ""


def test_the_text_of_an_exception_stays_one_line(tmp_path: pathlib.Path) -> None:
    result = command(
        f"{ROOT}/tools/exercises/judge.py {BUILD}/tests/solutions_01 --solution ring_shift/throws-lines",
        tmp_path,
        EXERCISE_RANKS="1",
    )
    assert result.status == 1 and r"threw: \xff\x1b[2J lost\x0adone\x0ahint: done" in result.out, result
    assert not {"done", "hint: done"} & {*result.out.splitlines()}


def test_a_process_without_our_environment_does_not_keep_the_answer(tmp_path: pathlib.Path) -> None:
    """It holds mpirun's pipe open, for which mpirun would wait."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nenv -i sleep 1000 &\necho $! >$SLEEPS\necho done >$2\n")
    program.chmod(0o755)
    result = command(
        f"{ROOT}/tools/exercises/judge.py {program}", tmp_path, 60, EXERCISE_RANKS="1", SLEEPS=f"{tmp_path}/pid"
    )
    assert "a process that it started was still running" in result.out, result
    process = pathlib.Path("/proc", (tmp_path / "pid").read_text().strip())
    assert not process.exists() or not (process / "cmdline").read_bytes()  # nobody may have waited for it


def test_a_folder_in_which_nothing_can_be_written_is_named(tmp_path: pathlib.Path) -> None:
    result = command(f"ulimit -f 0; {ROOT}/tools/exercises/judge.py true", tmp_path, EXERCISE_RANKS="1")
    assert result.status == 2 and result.err.startswith("error: ") and result.err.count("\n") == 1, result


def test_an_abs_of_ranks_is_found() -> None:
    assert source_text.mirrors_negatives("chunk(std::abs(comm.rank() - step) % size)")
    assert not source_text.mirrors_negatives("if (std::abs(sum - mean) > 1e-6) return; int rank;")


def test_comments_and_strings_are_no_code_and_lines_keep_their_numbers() -> None:
    code = source_text.code_of('a("MPI_COMM_WORLD") /* MPI_COMM_WORLD\n\n */ b // MPI_COMM_WORLD\nc\'"\'d')
    assert code.count("\n") == 3 and "WORLD" not in code and code.split()[-1] == "c''d"


def test_two_solutions_stand_beside_each_other_if_there_is_room() -> None:
    yours = (
        "#pragma once\n// contract\nnamespace dist::exercise {\n\n// said\nint f() {\n  return 1;\n}\n}  // namespace\n"
    )
    ours = f"namespace dist::exercise {{\nint f() {{ return {'1 + ' * 20}1; }}\n}}\n"
    wide = beside.beside(yours, ours, 140).splitlines()
    assert [line.split(" |")[0].rstrip() for line in wide] == ["// yours", "int f() {", "  return 1;", "}"]
    assert (
        wide[0].split(" | ")[1] == "// ours" and "".join(line.split(" | ")[1] for line in wide[1:3]).count("1 +") == 20
    )
    assert max(map(len, wide)) <= 140
    assert beside.beside(yours, ours, 100).splitlines()[:5] == ["// yours", "int f() {", "  return 1;", "}", ""]


def test_all_ranks_end_together_if_a_number_is_wrong(tmp_path: pathlib.Path) -> None:
    words = f"{ROOT}/tools/exercises/judge.py {BUILD}/tests/solutions_05 --solution gpt_windows/reciprocal"
    assert command(f"EXERCISE_LOG={tmp_path}/log {words}").status == 1
    assert "hang: " not in (tmp_path / "log").read_text()


def test_real_steps_are_shown_beside_a_right_prediction() -> None:
    done = command(f"{ROOT}/tools/exercises/judge.py {BUILD}/tests/solutions_05 --solution predict/reference")
    assert re.match(r"done\nms of a step on 2 ranks, predicted / measured: by hand [\d.]+ / [\d.]+, with ", done.out)


def test_the_answer_on_the_front_page_is_the_judges() -> None:
    block = re.search(r"^ring_shift  base  (wrong .*?) \.\.\.\n```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert block
    result = command(
        f"{ROOT}/tools/exercises/judge.py {BUILD}/tests/solutions_01 --solution ring_shift/send-first",
        EXERCISE_RANKS="4",
    )
    assert " ".join(block[1].split()) in " ".join(result.out.split())
