"""Each experiment of ./learn break shows its symptom, with what its README says of it.

An experiment judges itself: it ends with status 0 only if its numbers show the symptom, unless the
symptom is a hang. A row here names the program, the experiment, the numbers of ranks to run it on,
of which the first is the smallest that the experiment accepts, and regular expressions that must
match what it prints. In these, RANKS is the number of ranks and LAST is the last rank. Those that can use GPUs
have the mark gpu; more than the smallest number of ranks is tried in turn (.ci/parts).
"""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from programs import EMULATED, NO_GRACE, ROOT, Result, command, gpus, hang, mpirun, refused, runs, says

PROGRAMS = ["send_recv", "broadcast", "all_reduce", "distributed_sampler", "ddp_training"]

Row = tuple[Any, ...]

APPEARS: list[Row] = [
    (
        "send_recv",
        "shared-variable",
        [2, 4],
        "rank 0  the_variable at 0x[0-9a-f]+: 42$",
        "rank 1  the_variable at .*: 0$",
        "rank LAST  the_variable at .*: 0$",
    ),
    (
        "send_recv",
        "truncate",
        [2, 4],
        "4 numbers, room for 3: MPI_Recv returns MPI_ERR_TRUNCATE$",
        "memory after the buffer: unchanged$",
        "3 numbers, room for 4: MPI_Recv returns MPI_SUCCESS; its status counts 3$",
        "memory: 1000 1001 1002 -1 ",
        r'recv\(\) reports "received 3 elements from rank 1, expected 4"$',
    ),
    (
        "send_recv",
        "wrong-type",
        [2, 4],
        "sent as floats:      1000 1001 1002 1003$",
        "received as ints:    1148846080 ",
    ),  # 0x447a0000: 1000 in binary32
    (
        "send_recv",
        "reuse-buffer",
        [2, 4],
        " 16 B: rank 0 received [0-4] numbers of version 1",
        "1 MiB: .* [1-9][0-9]* of version 2$",
    ),
    (
        "send_recv",
        "never-received",
        [2, 4],
        "rank 0 has sent 4 numbers to rank 1, and goes on$",
        "messages that wait there: 1$",
    ),
    (
        "send_recv",
        "print-order",
        [2, 7],
        ": out of order$",
        "line 0 by rank 0",
        "line LAST by rank LAST",
        r"one file, each line flushed:( \d+)+: in order$",
    ),
    ("broadcast", "barrier-myth", [2, 4], "rank LAST enters 200 ms late"),
    ("broadcast", "root-only", [2, 4], "rank LAST: layers 1, 2, 3 hold tensors 0, 1, 2"),
    ("broadcast", "root-disagree", [2, 4], "runcate"),  # MPI libraries word this differently
    ("broadcast", "no-broadcast", [2, 4], "updates differed by at most 0 in the 100 steps"),
    (
        "all_reduce",
        "forget-divide",
        [2, 7],
        "on RANKS ranks the sum's step is RANKS times as long as the average's$",
    ),
    (
        "all_reduce",
        "chunk-off-by-one",
        [2, 7],
        "ones            PASS: 0 wrong of ",
        "tracer numbers  FAIL: ",
        r"element 0 is (\d+)4 and should be \1(?:0)$",
    ),
    ("all_reduce", "full-tensor-ring", [3, 7], r"bytes FAIL: \d+ = \(N-1\) S, but 2 \(N-1\)/N S = \d+ is enough$"),
    (
        "all_reduce",
        "swap-order",
        [2, 4],
        "the sum of the weights is 5[16]000, and must be [16]000$",
        "rank LAST called the all-reduce with a different tensor than rank 0: both of 16 bytes$",
        "rank LAST called .* different number of elements than rank 0: 16 bytes and 32$",
    ),
    ("all_reduce", "association", [3, 7], "naive 1, ring 1, recursive doubling 1$"),
    ("distributed_sampler", "no-sampler", [2, 7], r"no sampler +\d+ +8 +1 "),
    ("distributed_sampler", "no-set-epoch", [2, 7], "different orders: 1 without set_epoch, 5 with it$"),
    ("distributed_sampler", "rank-seed", [2, 7], r"seed  +\d+ +\d+ +0 +0 +0.0 %$"),
    ("ddp_training", "no-all-reduce", [2, 7], "parted after step 1, first in 0.weight of ranks 0, 1"),
    (
        "ddp_training",
        "skip-parameter",
        [2, 4],
        "parted after step 1, first in 2.bias of rank",
        "all other parameters: equal on all ranks, bit for bit$",
    ),
    (
        "ddp_training",
        "tied-weight",
        [2, 4],
        "both +registered last +one each +no .* equal$",
        "one +registered last +one each +no .* parted in step 1$",
        "one +registered last +one for all +no .* equal$",
        "one +registered first +one each +no .* equal$",
        "after each use: error: the gradient of embedding.weight was marked ready twice$",
        r"0 of 4 \(registered last\), 3 \(first\)$",
    ),
    ("ddp_training", "gradient-noise", [2, 7], "the replicas are equal, bit for bit$"),
    ("ddp_training", "update-noise", [2, 7], "parted after step 1"),
    ("ddp_training", "average-parameters", [2, 4], "below 1e-05 is rounding"),
    ("ddp_training", "all-save", [2, 4], "damaged: its checksum does not match its content$"),
    ("ddp_training", "rank0-loss", [2, 7], "it moved in the opposite direction$"),
    ("ddp_training", "lr", [2, 4], "RANKS times the rate: much better in "),
    ("ddp_training", "no-wait", [2, 4], "step, then wait: .* parted after step 1, first in 0.weight of rank"),
    ("ddp_training", "iallreduce", [2, 4], "MPI_Iallreduce false, on a second thread true$"),
    # 101,770 parameters, as many gradients, and Adam's two numbers for each; and for each of 56
    # rows, the outputs of layers of 128 and 10 neurons, with their gradients: in KiB.
    (
        "ddp_training",
        "memory",
        [2, 7],
        r"RANKS +397\.5 +397\.5 +795\.1 +60\.4 +1650\.5 ",
        "only the data is divided$",
    ),
    (
        "ddp_training",
        "tensor-backward",
        [2, 4],
        "with +the sum in backward: .* equal, bit for bit$",
        "without .* 0.weight of ranks? ",
    ),
]

HANGS: list[Row] = [
    (
        "send_recv",
        "head-to-head --strict",
        [2],
        "no MPI_Send of any size returns before its receive is called",
        r"hang: rank 0 in MPI_Send to 1 \(4 B, tag 0\); rank 1 in MPI_Send to 0 \(4 B, tag 0\): "
        "cycle 0 -> 1 -> 0$",
    ),
    (
        "send_recv",
        "wrong-tag",
        [2, 4],
        "sent tag 8, then 7; received tag 7, then 8: each receive got its own message$",
        "hang: rank 1 waits for tag 7 from rank 0; rank 0 has sent tag 8$",
    ),
    (
        "broadcast",
        "root-disagree --strict",
        [4],
        r"hang: rank 0 in MPI_Send to 3 \(32 B, tag 0\); rank 3 in MPI_Send to 0 \(32 B, tag 0\): "
        "cycle 0 -> 3 -> 0$",
    ),
    (
        "all_reduce",
        "one-skips",
        [2],
        r"rank 0 is in all_reduce #7 \(gradients\); rank 1 never entered it, last seen in #6$",
    ),
    (
        "all_reduce",
        "one-skips",
        [4],
        "rank 2 leaves out all_reduce #7",
        r"ranks 0, 1, 3 are in all_reduce #7 \(gradients\); rank 2 never entered it, "
        "last seen in #6$",
    ),
    (
        "distributed_sampler",
        "uneven",
        [2],
        r"rank 0 is in all_reduce #4 \(the gradients of step 4\); rank 1 never entered it, "
        "last seen in #3$",
    ),
    (
        "ddp_training",
        "pipeline-sends",
        [2, 3],
        r"rank 0 in MPI_Send to 1 \(64 KiB, tag 0\) of exchange #1 \(activations of 1\); rank 1 in "
        r"MPI_Send to 0 \(64 KiB, tag 0\) of exchange #1 \(gradient of 0\): cycle 0 -> 1 -> 0$",
    ),
    (
        "distributed_sampler",
        "uneven",
        [4],
        "rank 0 has 4 batches, and the others have 3",
        r"rank 0 is in all_reduce #4 \(the gradients of step 4\); ranks 1, 2, 3 never entered it, "
        "last seen in #3$",
    ),
]

# These have tests of their own below.
OTHERS: list[Row] = [
    ("send_recv", "head-to-head", [2, 4]),
    ("send_recv", "no-group", [2, 3]),
    ("ddp_training", "tiny-model", [2, 4]),
    ("ddp_training", "wrong-stream", [2, 4]),
    ("ddp_training", "no-sync", [2, 4]),
    ("ddp_training", "loss-item", [1, 4]),
]


def runs_of(rows: list[Row]) -> list[object]:
    """A test for each row and number of ranks; its id is the experiment and that number."""
    return [
        pytest.param(
            ranks,
            f"broken/{program} {name}",
            texts,
            id=f"{name}-{ranks}",
            marks=[pytest.mark.gpu] * (program == "ddp_training") + [pytest.mark.long] * (ranks != counts[0]),
        )
        for program, name, counts, *texts in rows
        for ranks in counts
    ]


def check_text(result: Result, ranks: int, texts: Sequence[str]) -> None:
    """What an experiment prints fills half a screen at most."""
    assert len(result.out.splitlines()) <= 15
    for text in texts:
        wanted = text.replace("RANKS", str(ranks)).replace("LAST", str(ranks - 1))
        assert re.search(wanted, result.out + result.err, re.M), f"{wanted}\n{result.out}"


def check_shown(result: Result, ranks: int, texts: Sequence[str] = ()) -> None:
    assert result.status == 0, result.out + result.err
    check_text(result, ranks, [*texts, "^verified: the symptom appeared$"])


@pytest.mark.parametrize("program", PROGRAMS)
def test_list_has_the_experiments_that_are_tested_here(program: str) -> None:
    fewest: dict[str, int] = {}
    for row_program, name, counts, *_ in APPEARS + HANGS + OTHERS:
        if row_program == program:
            name = name.split()[0]
            fewest[name] = min(counts[0], fewest.get(name, counts[0]))
    listed = [line.split()[0] for line in runs(2, f"broken/{program} list").out.splitlines()]
    assert sorted(listed) == sorted(fewest)
    for ranks in {*fewest.values()} - {1}:
        name = next(name for name in fewest if fewest[name] == ranks)
        refused(f"broken/{program} {name}", f"NAME: {name} needs {ranks} ranks", ranks - 1)
    refused(f"broken/{program} nonsense", "NAME: 'nonsense' is not one of list, ")


@pytest.mark.parametrize("ranks, program, texts", runs_of(APPEARS))
def test_the_symptom_appears(ranks: int, program: str, texts: Sequence[str]) -> None:
    check_shown(mpirun(ranks, program), ranks, texts)


@pytest.mark.parametrize("ranks, program, texts", runs_of(HANGS))
def test_it_hangs_and_the_report_says_why(ranks: int, program: str, texts: Sequence[str]) -> None:
    check_text(hang(ranks, program), ranks, texts)


@pytest.mark.parametrize("ranks", [2, 4])
def test_head_to_head_works_at_the_eager_limit_and_hangs_one_number_above_it(ranks: int) -> None:
    limit = runs(2, "send_recv_perf --act eager --json").rows[0]["eager_limit_bytes"] // 4 * 4
    check_text(
        hang(ranks, "broken/send_recv head-to-head"),
        ranks,
        [
            rf"{limit} bytes \(the eager limit\), ranks 0 and 1 both send first: right numbers$",
            f"{limit + 4} bytes, ranks 0 and 1 both send first",
            r"hang: rank 0 in MPI_Send to 1 \(.*cycle 0 -> 1 -> 0$",
        ],
    )


def test_no_broadcast_shows_its_symptom_with_another_seed() -> None:
    usual = runs(2, "broken/broadcast no-broadcast")
    seeded = runs(2, "broken/broadcast no-broadcast --seed 1")
    assert seeded.out != usual.out


@pytest.mark.parametrize("ranks", [2, 4])
def test_tiny_model_predicts_then_measures_and_judges_by_the_measurement(ranks: int) -> None:
    """No time is checked: the verdict must follow from the program's own measurement."""
    result = mpirun(ranks, "broken/ddp_training tiny-model")
    found = re.search(rf"predicted: .*us per step on {ranks} ranks, a speed-up of ([0-9.]+)$", result.out, re.M | re.S)
    assert found, result.out + result.err
    speed_up = float(found[1])
    assert result.status in ([0] if speed_up < 0.995 else [1] if speed_up > 1.005 else [0, 1])


def run_on_gpus(ranks: int, program: str, name: str, fewest: int) -> Result:
    """Skips the test if there are not enough GPUs, which the experiment must then say itself."""
    result = mpirun(ranks, f"broken/{program} {name}", **NO_GRACE)
    if result.status == 2 and not (EMULATED and gpus() >= fewest):
        reason = result.err.splitlines()[0]
        assert reason.startswith(f"error: {name}: ") and not result.out
        pytest.skip(reason)
    return result


@pytest.mark.gpu
@pytest.mark.parametrize("ranks", [2, 3])
def test_ungrouped_sends_of_nccl_wait_in_a_cycle(ranks: int) -> None:
    result = run_on_gpus(ranks, "send_recv", "no-group", fewest=ranks)
    assert result.status == 86, result.out + result.err
    says(result, "send and receive in a group: right numbers")
    for rank in range(ranks):  # the watch cannot see into NCCL
        says(result, f"rank {rank} in a wait for its GPU")


@pytest.mark.gpu
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", ["wrong-stream", "no-sync"])
def test_queued_work_is_not_finished_work(ranks: int, name: str) -> None:
    check_shown(run_on_gpus(ranks, "ddp_training", name, fewest=1), ranks)


@pytest.mark.gpu
@pytest.mark.parametrize("ranks", [1, 4])
def test_the_host_waits_for_each_loss_that_it_reads(ranks: int) -> None:
    # As advanced/gpu_step.md says, if no messages wait for copies.
    known = EMULATED and ranks <= gpus()
    check_shown(
        run_on_gpus(ranks, "ddp_training", "loss-item", fewest=1),
        ranks,
        ["loss read in  8 of 64 steps:  15 waits"] if known else [],
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_list_of_experiments_is_the_programs_own(program: str) -> None:
    """./learn makes it without building anything."""
    theirs = runs(1, f"broken/{program} list").out
    assert command(f"{ROOT}/learn break {PROGRAMS.index(program) + 1}").out == theirs
