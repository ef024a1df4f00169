"""Steps replayed from a CUDA graph: same numbers, no waits, no allocations, and as many kernels as the page says."""

import re

import pytest
from programs import EMULATED, Environment, emulated, gpus, runs
from training import LATER, assert_twins, near, train

pytestmark = pytest.mark.usefixtures("a_gpu")

LEVELS = ("optimizer", "gradients", "parameters")


@pytest.fixture
def ranks(request: pytest.FixtureRequest) -> int:
    """Only if each rank has a GPU of its own do the ranks use NCCL and replay their steps."""
    if request.param > gpus():
        pytest.skip(f"fewer than {request.param} GPUs")
    return int(request.param)


WIDE = "--device cuda --max-steps 110 --batch-size 8 --layers 784,40,30,20,10 "


@pytest.mark.parametrize("ranks", [1, 2, 4], indirect=True)
def test_a_graph_changes_no_loss_and_a_step_neither_waits_nor_allocates(ranks: int) -> None:
    graph, plain = train(ranks, WIDE), train(ranks, WIDE + "--no-graph")
    assert graph.losses == near(plain.losses)  # of the same kernels
    assert graph.final["host_waits_per_step"] == graph.final["allocations_per_step"] == 0
    # 11 matrix products, each perhaps followed by a bias, a ReLU or column sums; the loss, the
    # all-reduce, the check and the update. On a real GPU, each product may be two kernels, which
    # add in parts and then together.
    assert 14 <= graph.final["graph_nodes"] <= (16 if EMULATED else 38)
    assert plain.final["graph_nodes"] == 0


def test_the_parts_of_a_step_are_timed_without_replays_and_add_up() -> None:
    final = train(gpus(), "--device cuda --layers 784,32,10 --samples 4000 --batch-size 3 --max-steps 450").final
    parts = [final[f"{part}_ms"] for part in ("data", "compute", "exposed_comm", "optimizer")]
    assert min(parts) >= 0 and sum(parts) == near(final["plain_step_ms"], 1e-6)
    assert final["slowest_rank"] is None  # four plain steps are too few to blame a rank


@pytest.mark.parametrize("ranks", [1, 2, 3], indirect=True)
def test_sharded_steps_learn_the_same_neither_wait_nor_allocate_and_are_replayed(ranks: int) -> None:
    job = WIDE + "--first-bucket-mb 0.001 --bucket-cap-mb 0.004 --clip-norm 0.5"
    ddp = train(ranks, job)
    for level in LEVELS:
        run = train(ranks, f"{job} --shard {level}")
        assert_twins(run.losses, ddp.losses, LATER)
        assert run.final["host_waits_per_step"] == run.final["allocations_per_step"] == 0
        assert run.final["graph_nodes"] > 0


@emulated
@pytest.mark.parametrize(
    "setting, kernels",
    [({"DIST_NO_EPILOGUES": "1"}, 27), ({"EMULATED_EPILOGUES": "516"}, 22), ({}, 16)],  # 516: a bias, and its sums
)
def test_the_graph_has_as_many_kernels_as_the_page_on_gpu_steps_says(setting: Environment, kernels: int) -> None:
    run = train(
        2, "--device cuda --layers 784,512,512,512,10 --batch-size 8 --max-steps 8", EMULATED_GPUS="2", **setting
    )
    assert run.final["graph_nodes"] == kernels


@emulated
@pytest.mark.parametrize("flag", ["--graph", "--no-graph"])
def test_64_steps_make_16_waits_and_no_step_allocates_or_creates_an_event(flag: str) -> None:
    """Every eight steps, the run waits for the oldest reports, and the loader for the oldest
    copies."""

    def counts(steps: int) -> tuple[int, str]:
        result = runs(
            1,
            "ddp_training --device cuda --dataset synthetic --samples 10000 --layers "
            f"20,9,5 --classes 5 --batch-size 4 {flag} --max-steps {steps}",
            EMULATED_COUNTS="1",
        )
        line = r"waits (\d+), (pageable copies \d+, allocations \d+, events \d+)"
        waits, others = re.findall(line, result.err)[0]
        return int(waits), others

    few, many = counts(24), counts(88)
    assert many == (few[0] + 16, few[1])
