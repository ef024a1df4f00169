"""The trainer made of a reader's exercises (./learn mine): with none written, with some, and with all of them,
right and wrong. Wrong parts are named. The trainer is built once for all of these: variables say what it does."""

import pathlib
import re
import sys

import pytest
from programs import BUILD, ROOT, Result, command, runs

TREE = BUILD / "tests/mine_tree"  # where my_trainer_of_test finds the exercises
sys.path.insert(0, str(ROOT / "tools/exercises"))
import exercises  # noqa: E402

PARTS = [each for lesson in exercises.LESSONS for each in exercises.exercises_of(lesson) if each.part]
# The reference solutions, as the reader's files.
REFERENCES = {part.name: exercises.reference(part) for part in PARTS}


def build(files: dict[str, str]) -> None:
    """Builds the trainer of a reader who has written only these files."""
    for part in PARTS:
        path = TREE / part.folder / "exercise" / f"{part.name}.hpp"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if part.name in files:
            path.write_text(files[part.name])
    built = command(f"cmake --build {BUILD} --target my_trainer_of_test", limit=600)
    assert built.status == 0, built.out


def train(ranks: int, flags: str = "--epochs 1", status: int = 0, **environment: str) -> Result:
    # On a busy machine, nothing may move for seconds; a right part can wait for that.
    timeout = 3 if status == 86 else 20
    return runs(
        ranks, f"../tests/my_trainer_of_test --timeout {timeout} {flags}", status=status, limit=120, **environment
    )


def test_parts_that_are_not_written_are_ours() -> None:
    build({})
    assert "\nours: sync_gradients\n" in train(2).out


def test_some_parts_are_the_readers() -> None:
    # Several exercises may define helpers with the same name.
    helper = "namespace dist::exercise { inline int helper() { return 1; } }\n"
    build({part: REFERENCES[part] + helper for part in ("ring_shift", "tree_broadcast", "ring_all_reduce")})
    assert "\nverified: 3 of 8 parts are yours" in train(3).out


def test_a_model_of_ones_own_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    file = ROOT / "05_ddp_training/advanced/your_model.cpp"
    monkeypatch.setenv("MY_MODEL", str(file))
    build({})
    assert "\nverified: 0 of 8 parts are yours" in train(2).out
    wrong = TREE / "wrong_model.cpp"
    text = file.read_text()
    assert text.count("    relu_backward(") == 1
    wrong.write_text(re.sub("    relu_backward.*\n", "", text))
    monkeypatch.setenv("MY_MODEL", str(wrong))
    build({})
    assert "WRONG: U: backward says " in train(2, status=1).err


# With $WRONG, the row's number: the part, what is replaced by what in its reference, ranks, status, what is said.
WRONG = [
    ("ring_shift", "comm.right()", "comm.left()", 3, 86, "your ring_shift"),
    ("ring_shift", "mpi_count(in.size())", "mpi_count(out.size())", 3, 1, "ring_shift"),
    ("tree_broadcast", "d < size", "d < 1", 2, 1, "WRONG: tree_broadcast; run ./learn check 2"),
    (
        "ring_all_reduce",
        "value *= 1.0F / static_cast<float>(size)",
        "value /= static_cast<float>(size)",
        3,
        1,
        "WRONG: ring_all_reduce; run ./learn check 3",
    ),
    # The numbers are right, but the reader's ring_shift is not part of the trainer.
    ("ring_all_reduce", "send_recv<float>(", "dist::send_recv<float>(", 2, 0, "verified: 7 of 8 parts are yours"),
    ("ring_all_reduce", "send_recv<float>(", "dist::send_recv<float>(", 2, 0, "because ring_all_reduce does not call"),
    ("my_indices", "place += ranks", "place += 1", 2, 1, "WRONG: my_indices; run ./learn check 4"),
    ("sync_gradients", "ReduceOp::avg", "ReduceOp::sum", 2, 1, "WRONG: sync_gradients; run ./learn check 5"),
    ("overlap", "ready_.assign(ready_.size(), false);", "", 2, 1, "WRONG: overlap; run ./learn check 5 overlap"),
    ("overlap", "from += values.size();", "", 2, 1, "WRONG: overlap; run ./learn check 5 overlap"),
    ("accumulate", "/ static_cast<float>(parts)", "", 2, 1, "WRONG: accumulate; run ./learn check 5 accumulate"),
    ("checkpoint", ".step = numbers[3]", ".step = 0", 2, 1, "WRONG: checkpoint; run ./learn check 5 checkpoint"),
    ("sync_gradients", "std::copy(next, end, to.begin());", 'throw Error("oops");', 2, 1, "your sync_gradients: oops"),
]


# With $ENDS, the row's number: what ring_shift does on rank 1 in a later step, status, what is said.
ENDINGS = [
    ("while (getppid() > 0) {}", 86, "hang: .*your ring_shift"),
    ("std::exit(0);", 1, r"WRONG: your ring_shift called exit\(\)"),
    ("_exit(0);", 1, r"WRONG: your ring_shift called _exit\(\)"),
    ("MPI_Abort(MPI_COMM_WORLD, 0);", 1, "WRONG: your ring_shift called MPI_Abort"),
    ("fork();", 1, r"WRONG: your ring_shift called fork\(\)"),
    ("std::fill_n(in.data(), 1 << 28, 0.0F);", 139, "WRONG: your ring_shift crashed"),
    (
        "for (std::vector<char*> all;;) all.push_back(new char[1 << 28]);",
        1,
        "fatal: .*your ring_shift: it ran out of memory",
    ),
]


def with_endings(text: str) -> str:
    """ring_shift, which can end in these ways."""
    cases = "".join(f"  if (ends && *ends == '{i}') {{ {statement} }}\n" for i, (statement, _, _) in enumerate(ENDINGS))
    includes = "#include <cstdlib>\n#include <span>\n#include <unistd.h>\n#include <vector>"
    return text.replace("#include <span>", includes).replace(
        "  MPI_CHECK(MPI_Sendrecv",
        "  static int calls = 0;\n"
        f'  const char* ends = ++calls > 4 && comm.rank() == 1 ? std::getenv("ENDS") : nullptr;\n{cases}'
        "  MPI_CHECK(MPI_Sendrecv",
    )


def with_mistakes(part: str, text: str) -> str:
    """A part that is right unless $WRONG is the number of one of its rows."""
    includes, _, body = text.partition("namespace dist::exercise {\n")
    found = re.search(rf"inline ([\w:<>]+) {part}\((.*?)\) {{", body, re.S)
    assert found, body
    returns, arguments = found[1], found[2]
    call = f"{part}({', '.join(re.findall('([a-z_]+)(?:,|$)', arguments))})"
    namespaces, choice = f"namespace dist::exercise::right {{\n{body}", ""
    for i, (wrong_part, old, new, *_) in enumerate(WRONG):
        if wrong_part == part:
            assert old in body
            namespaces += f"namespace dist::exercise::wrong_{i} {{\n{body.replace(old, new)}"
            choice += f"  if (wrong && std::atoi(wrong) == {i}) return wrong_{i}::{call};\n"
    return f"""{includes}#include <cstdlib>
{namespaces}
namespace dist::exercise {{
inline {returns} {part}({arguments}) {{
  [[maybe_unused]] const char* wrong = std::getenv("WRONG");
{choice}  return right::{call};
}}
}}
"""


def trained(ranks: int, flags: str) -> dict[str, object]:
    """The last row of the reader's trainer."""
    return runs(ranks, f"../tests/my_trainer_of_test {flags} --json", limit=120).rows[-1]


@pytest.fixture(scope="module")
def our_rows() -> dict[int, dict[str, object]]:
    """What the trainer made of ours alone says, on these ranks."""
    build({})
    return {ranks: trained(ranks, "--epochs 1 --seed 5") for ranks in (1, 2, 3, 4)}


@pytest.fixture(scope="module")
def all_parts(our_rows: object) -> None:
    """Builds the trainer of a reader who has written every part, once ours has run."""
    texts = {**REFERENCES, "ring_shift": with_endings(REFERENCES["ring_shift"])}
    assert texts["ring_shift"].count("ends &&") == len(ENDINGS) < 10
    build({part: with_mistakes(part, text) for part, text in texts.items()})


@pytest.mark.usefixtures("all_parts")
def test_all_parts_train_as_ours_do(our_rows: dict[int, dict[str, object]]) -> None:
    for ranks, ours in our_rows.items():
        mine = trained(ranks, "--epochs 1 --seed 5")
        # From three ranks on, what is in another bucket is added in another order.
        unlike: set[str] = {"fingerprint", "test_accuracy"} if ranks > 2 else set()
        assert mine.keys() == ours.keys() and mine["yours"] in (7, 8)
        assert all(mine[key] == ours[key] for key in ours.keys() - unlike - {"yours"}), (mine, ours)
    said = train(2).out
    assert re.search("^verified: 8 of 8 .* bit for bit$", said, re.M), said


@pytest.mark.usefixtures("all_parts")
def test_a_run_goes_on_to_the_bit_from_what_was_saved(tmp_path: pathlib.Path) -> None:
    whole = trained(2, "--epochs 2")
    trained(2, f"--epochs 1 --checkpoint {tmp_path}/saved")
    assert trained(2, f"--epochs 2 --resume {tmp_path}/saved") == whole
    result = runs(2, f"../tests/my_trainer_of_test --resume {tmp_path}/nothing", status=2)
    assert f"error: --resume: there is no file {tmp_path}/nothing" in result.err


@pytest.mark.usefixtures("all_parts")
@pytest.mark.parametrize("row", range(len(WRONG)), ids=[f"{part}: {new}" for part, _, new, *_ in WRONG])
def test_a_wrong_part_is_named(row: int) -> None:
    _, _, _, ranks, status, said = WRONG[row]
    result = train(ranks, status=status, WRONG=str(row))
    assert said in result.out + result.err


@pytest.mark.usefixtures("all_parts")
@pytest.mark.parametrize("row", range(len(ENDINGS)), ids=[statement for statement, *_ in ENDINGS])
def test_what_a_part_does_only_in_training_is_named(row: int) -> None:
    _, status, said = ENDINGS[row]
    result = train(2, status=status, ENDS=str(row))
    assert re.search(said, result.out + result.err), result
