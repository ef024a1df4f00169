"""Training on GPUs, compared with PyTorch, with itself and with the CPU; and, in the emulated
build, what happens where a GPU, a driver or a library is old, slow, broken or missing."""

import os
import re
from typing import Any

import pytest
from programs import EMULATED, NO_GRACE, ONE_GPU, Environment, command, emulated, mpirun, refused, runs, says
from training import GOLDEN, LATER, assert_twins, golden_id, near, repeat, train

pytestmark = pytest.mark.usefixtures("a_gpu")
JOB = "--device cuda --dataset synthetic --samples 300 --layers 20,33,17,5 --classes 5 --batch-size 16 --epochs 3 "


@pytest.mark.parametrize("golden", GOLDEN, ids=golden_id)
def test_training_runs_of_pytorch_are_reproduced(golden: dict[str, Any]) -> None:
    assert repeat(golden, "--device cuda", LATER).final["device"].startswith("cuda")


@pytest.mark.parametrize("ranks, backend", [(1, "nccl"), (2, "ours")])
def test_a_gpu_serves_one_rank_with_nccl_and_two_without(ranks: int, backend: str) -> None:
    assert train(ranks, JOB, **ONE_GPU).final["backend"] == backend


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("backend", ["ours", "mpi"])
def test_a_gpu_serves_several_ranks_with_staging(ranks: int, backend: str) -> None:
    job = f"{JOB} --backend {backend}"
    run = train(ranks, job, **ONE_GPU)
    assert run.final["backend"] == backend and run.final["replicas_identical"] is True
    assert_twins(run.losses, train(ranks, f"{job} --device cpu").losses, LATER)


@pytest.mark.parametrize(
    "ranks, flag, error",
    [
        (1, "--pretend-link 1", "--pretend-link: needs --backend ours or mpi, not nccl"),
        (2, "", "--backend: nccl: ranks 0 and 1 share one GPU"),
    ],
)
def test_what_nccl_cannot_do_on_one_gpu_is_refused(ranks: int, flag: str, error: str) -> None:
    refused(f"ddp_training --backend nccl {flag} {JOB}", error, ranks, **ONE_GPU)


def test_two_ranks_with_nccl_share_a_gpu_if_nccl_allows_it() -> None:
    """NCCL 2.30 does if the environment asks for it; with an older one, the refusal says so."""
    shared: Environment = {**ONE_GPU, "EMULATED_NCCL": "23000", "NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    result = mpirun(2, f"ddp_training --backend nccl {JOB}", **shared)
    if result.status == 2:
        assert not EMULATED
        return says(result, "with NCCL_MULTI_RANK_GPU_ENABLE=1 and NCCL_MAX_CTAS=4 in the environment, 2.30 does")
    assert result.status == 0, result.err
    says(result, "share one GPU, as NCCL_MULTI_RANK_GPU_ENABLE=1 allows")
    runs(2, "../tests/nccl_test [nccl][gpu]", **shared)


@emulated
def test_the_version_of_nccl_is_shown_if_it_is_not_the_headers_and_refused_if_it_is_too_old() -> None:
    job = f"ddp_training {JOB}"
    for version, shown in (("22703", "2.27.3"), ("23007", "2.30.7")):
        says(
            runs(2, job, EMULATED_NCCL=version, EMULATED_GPUS="2"),
            f"gradients by nccl {shown} (compiled for 2.28.9): a GPU for every rank",
        )
    old = "rank 0 has loaded NCCL 2.18.1, but this program was compiled for 2.28.9 and needs 2.19.0"
    refused(f"{job} --backend nccl", f"--backend: nccl: {old}", EMULATED_NCCL="21801")
    says(runs(2, job, EMULATED_NCCL="21801"), f"pinned host memory: {old}")


def test_if_a_batch_does_not_fit_the_error_gives_the_requested_and_free_memory() -> None:
    """The output of the first layer alone would take 400 GB."""
    result = runs(
        1,
        "ddp_training --device cuda --dataset synthetic --samples 100000 --classes 4 "
        "--batch-size 100000 --layers 16,1000000,4",
        status=1,
        **ONE_GPU,
    )
    assert re.search(r"out of memory on cuda:0: 400000000000 bytes requested, .* free", result.err)


# No epilogues at all; the bias alone; with ReLU; the column sums alone; a product that is refused
# outside a graph, and one in it.
@emulated
@pytest.mark.parametrize(
    "setting", ["EPILOGUES=0", "EPILOGUES=4", "EPILOGUES=134", "EPILOGUES=512", "REFUSAL=1:3", "REFUSAL=1:33"]
)
def test_any_epilogue_may_be_missing_and_any_product_may_be_refused(setting: str) -> None:
    job = "--device cuda --batch-size 8 --max-steps 8 --layers 784,20,10,1,10"
    name, _, value = setting.partition("=")
    environment: Environment = {f"EMULATED_{name}": value}
    some = train(2, job, EMULATED_GPUS="2", **environment)
    assert some.losses == near(train(2, job, EMULATED_GPUS="2").losses)


@emulated
@pytest.mark.parametrize("ranks, flags", [(3, ""), (3, "--backend ours --overlap"), (2, "--shard parameters")])
def test_a_rank_makes_no_context_on_another_ranks_gpu(ranks: int, flags: str) -> None:
    """Not even when its threads end, which CUDA begins with GPU 0."""
    result = runs(ranks, f"ddp_training {JOB} {flags}", EMULATED_GPUS=str(ranks), EMULATED_COUNTS="1")
    assert re.findall(r"contexts (\d+)", result.err) == ["1"] * ranks


@emulated
@pytest.mark.parametrize("ranks, cores", [(1, 1), (2, 1)])
def test_ranks_that_share_few_cores_sleep_while_they_wait_for_the_gpu(ranks: int, cores: int) -> None:
    some = ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[:cores])
    job = f"mpirun -np {ranks} $BIN/ddp_training {JOB} --max-steps 10"
    result = command(f"exec taskset -c {some} {job}", EMULATED_COUNTS="1")
    assert result.status == 0, result.err
    counts = re.findall(r"^waits (\d+), .*spinning (\d+)$", result.err, re.M)
    assert len(counts) == ranks
    for waits, spinning in counts:
        assert int(waits) > 0 and spinning == ("0" if ranks > cores else waits)


@emulated
@pytest.mark.parametrize(
    "tests, kind",
    [("[gpu]", {"EMULATED_CAPABILITY": "7"}), ("[deterministic]", {"EMULATED_FLUSH": "1"})],
    ids=["no bf16", "subnormal sums become 0"],
)
def test_what_some_gpus_lack_is_not_asked_of_them(tests: str, kind: Environment) -> None:
    runs(2, f"../tests/lesson05_test {tests}", **kind)


@emulated
@pytest.mark.parametrize("relu", ["1", "2", "3"])
def test_training_copes_with_each_relu_that_cublaslt_may_have(relu: str) -> None:
    """It may make 0 of NaN, let no gradient pass where it is NaN, or let one pass where it is 0."""
    runs(2, "../tests/lesson05_test NaN*", EMULATED_RELU=relu)
    job = f"{JOB} --max-steps 8"
    theirs = train(2, job, EMULATED_GPUS="2", EMULATED_RELU=relu)
    assert theirs.losses == near(train(2, job, EMULATED_GPUS="2").losses)
    diverged = runs(2, f"ddp_training {job} --eps 0", status=1, EMULATED_GPUS="2", EMULATED_RELU=relu)
    assert re.search(r"WRONG: the parameters diverged: \d\.weight has a number that is not finite", diverged.err)


@emulated
def test_gpus_that_cannot_reach_each_other_leave_the_gradients_to_our_own_all_reduce() -> None:
    unable: Environment = {"EMULATED_NO_PEERS": "1", "EMULATED_GPUS": "2"}
    why = r"rank 0: unhandled cuda error \(.*217 'peer access is not supported"
    said = runs(2, f"ddp_training {JOB}", **unable).out
    assert re.search(r"^gradients by ours \(ring\), staged .*: " + why, said, re.M), said
    result = mpirun(2, f"ddp_training {JOB} --backend nccl", **unable, **NO_GRACE)
    assert result.status == 2 and not result.out
    assert re.match(
        r"error: --backend: nccl: " + why + ".*; try NCCL_CUMEM_HOST_ENABLE=0 in the environment; "
        "--backend ours does without NCCL\n",
        result.err,
    ), result.err


@emulated
@pytest.mark.parametrize(
    "program",
    [
        "send_recv_perf --act nccl",
        "broadcast_perf --algorithm nccl",
        "all_reduce_perf",
        "broken/send_recv no-group",
    ],
)
def test_other_programs_with_nccl_say_what_may_help_gpus_that_cannot_reach_each_other(program: str) -> None:
    result = mpirun(2, program, EMULATED_NO_PEERS="1", EMULATED_GPUS="2", **NO_GRACE)
    assert result.status != 0
    says(result, "217 'peer access is not supported", "; try NCCL_CUMEM_HOST_ENABLE=0 in the environment\n")


@emulated
def test_cuda_cublas_and_nccl_may_take_longer_to_start_than_the_timeout() -> None:
    runs(3, f"ddp_training {JOB} --timeout 1", EMULATED_GPUS="3", EMULATED_START_MS="2500")
    program = f"$BIN/ddp_training {JOB} --timeout 1"  # the others wait for a rank with a slow disk
    slow = command(f"exec mpirun -np 2 {program} : -np 1 env EMULATED_START_MS=2500 {program}", EMULATED_GPUS="3")
    assert slow.status == 0, slow.err


@emulated
@pytest.mark.parametrize(
    "fault, error",
    [
        *(
            ("NCCL_FAULT=1:" + call, "NCCL on rank 1 of 3: remote process exited or there was a network error")
            for call in ("5", "25")
        ),
        ("FAULT=2:100", "an illegal memory access was encountered"),
    ],
)
def test_a_broken_link_or_kernel_ends_all_ranks_with_a_sentence(fault: str, error: str) -> None:
    name, _, value = fault.partition("=")
    setting: Environment = {f"EMULATED_{name}": value}
    result = runs(3, f"ddp_training {JOB}", status=1, EMULATED_GPUS="3", **NO_GRACE, **setting)
    says(result, error)


@emulated
@pytest.mark.parametrize(
    "name, value, reason",
    [
        ("GPUS", "0", "no CUDA-capable device is detected"),
        ("DRIVER", "12040", "the GPU driver supports CUDA 12.4, but this build needs 13.0"),
        ("OLD", "1", "no kernel image is available"),
    ],
)
def test_a_missing_gpu_an_old_driver_or_an_old_gpu_is_reported_in_one_sentence(
    name: str, value: str, reason: str
) -> None:
    setting: Environment = {f"EMULATED_{name}": value}
    job = "ddp_training --max-steps 1"
    refused(f"{job} --device cuda", f"--device: cuda: {reason}", ranks=2, **setting)
    says(runs(2, f"{job} --device auto", **setting), f"on cpu ({reason}")
    if name == "OLD":
        refused(
            "broken/ddp_training skip-parameter --device cuda",
            f"--device: cuda: {reason} for execution on the device; remove the build folder, and configure on",
            ranks=2,
            **setting,
        )
