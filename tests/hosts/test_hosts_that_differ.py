"""Hosts may differ: in ranks, cores, quotas, GPUs, and whether they have the watch. EVERY_DIFFERENCE=1
tries each difference with every program."""

import itertools
import os
import pathlib
import re
from collections.abc import Iterator

import pytest
from hosts import on_hosts, quota_of
from programs import EMULATED, HIDE_GPUS, command, runs


@pytest.fixture(scope="module")
def quota() -> Iterator[str]:
    with quota_of(0.5) as start:
        yield start


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A command that starts a program without the watch: with an empty library in its place."""
    folder = tmp_path_factory.mktemp("empty")
    built = command("cc -shared -o libdist_watch.so -x c /dev/null", folder)
    assert built.status == 0, built.err
    return f"env LD_LIBRARY_PATH={folder}"


# How hosts may differ: the ranks on each, and how those of host-b are started.
DIFFERENCES = {
    "ranks": ("3,1", ""),
    "more-ranks": ("1,3", ""),
    "cores": ("2,2", "taskset -c 0"),
    "quota": ("2,2", "QUOTA"),
    "unwatched": ("3,1", "UNWATCHED"),
    "no-gpu": ("2,2", "env EMULATED_GPUS=0"),
    "old-gpu": ("2,2", "env EMULATED_OLD=1"),
}
GPU = {name for name in DIFFERENCES if "gpu" in name}
TRAINING = "ddp_training --dataset synthetic --layers 20,40,40,10 --samples 320 --batch-size 8 --json"
PROGRAMS = [
    "send_recv",
    "broadcast",
    "all_reduce",
    "distributed_sampler",
    "ddp_by_hand --epochs 1",
    TRAINING,
    "send_recv_perf --act all --max-bytes 4096",
    "broadcast_perf --max-bytes 4096",
    "all_reduce_perf --max-bytes 65536 --iterations 2",
    "tensor_parallel --steps 2",
    "pipeline_parallel --steps 2",
    "sending_less --steps 2",
    "broken/all_reduce association",
    TRAINING + " --overlap",
    TRAINING + " --algorithm auto",
    TRAINING + " --backend mpi",
    TRAINING + " --shard parameters",
    TRAINING + " --deterministic",
    TRAINING + " --trace t.json",
]
# Programs that a difference does not concern: some refuse a rank that cannot count messages.
COUNTING = {"sending_less --steps 2"}


def differing(*differences: str) -> tuple[str, str]:
    """The ranks on each host, and the options for two_hosts.sh."""
    return (
        next(
            (DIFFERENCES[name][0] for name in differences if "ranks" in name),
            "2,2" if "unwatched" not in differences else "3,1",
        ),
        " ".join(DIFFERENCES[name][1] for name in differences),
    )


def check_on_hosts_that_differ(program: str, ranks: str, starts: str, folder: pathlib.Path) -> None:
    """The program ends, all its results are right, and training has the bits of a single host."""
    options = f'--on host-b "{starts}"' if starts else ""
    gpus = {"EMULATED_GPUS": "2"} if EMULATED else {}
    result = on_hosts(ranks, program, options, folder, None, **gpus)
    assert result.status == 0, f"{result.status}\n{result.out}\n{result.err}"
    if not program.startswith(TRAINING):
        assert "verified: " in result.out
        return
    final = result.rows[-1]
    assert final["replicas_identical"] is not False
    if EMULATED:
        assert final["device"] == "cpu"
    alone = runs(sum(map(int, ranks.split(","))), program, folder, **HIDE_GPUS).rows[-1]
    if "mpi" not in program and "auto" not in program:  # whose sums depend on the hosts
        assert final["parameters"] == alone["parameters"]


EVERY = "EVERY_DIFFERENCE" in os.environ
CASES: list[tuple[str, tuple[str, ...]]] = [
    (program, (name,)) for program in PROGRAMS for name in DIFFERENCES if not ("_perf" in program and name == "old-gpu")
]  # which run no kernel of ours
CASES += [
    (program, pair)
    for program in ("all_reduce", TRAINING)
    for pair in itertools.combinations(DIFFERENCES, 2)
    if not {"ranks", "more-ranks"} <= {*pair} and not GPU >= {*pair}
]
if not EVERY:  # one program for each difference
    CASES = [
        ("send_recv", ("ranks",)),
        (TRAINING, ("more-ranks",)),
        (TRAINING, ("cores",)),
        ("all_reduce_perf --max-bytes 65536 --iterations 2", ("cores",)),
        ("ddp_by_hand --epochs 1", ("quota",)),
        (TRAINING, ("unwatched",)),
        ("all_reduce_perf --max-bytes 65536 --iterations 2", ("unwatched",)),
        (TRAINING + " --trace t.json", ("ranks", "cores")),
        (TRAINING, ("no-gpu",)),
        ("all_reduce", ("old-gpu",)),
    ]


@pytest.mark.parametrize(
    "program, differences", CASES, ids=[f"{program}-{'-'.join(names)}" for program, names in CASES]
)
def test_hosts_may_differ(
    program: str, differences: tuple[str, ...], quota: str, unwatched: str, tmp_path: pathlib.Path
) -> None:
    if GPU & {*differences} and not EMULATED:
        pytest.skip("the build has no emulated GPUs")
    ranks, starts = differing(*differences)
    starts = starts.replace("QUOTA", quota).replace("UNWATCHED", unwatched)
    if "unwatched" in differences and program in COUNTING:
        result = on_hosts(ranks, program, f'--on host-b "{starts}"', tmp_path, 2)
        assert re.findall("error: .*", result.err) == ["error: only a build with the watch counts bytes"]
        return
    if "unwatched" in differences and "--trace" in program:
        result = on_hosts(ranks, program, f'--on host-b "{starts}"', tmp_path, 2)
        assert re.findall("error: .*", result.err) == ["error: --trace: unknown flag; --help-all lists all flags"]
        return
    check_on_hosts_that_differ(program, ranks, starts, tmp_path)


@pytest.mark.parametrize(
    "ranks", ["1,1", "2,1", "1,2", "4,1", "5,3", "2,1,1", "1,3,1", "1,1,3"] if EVERY else ["2,1,1"]
)
def test_any_number_of_ranks_may_be_on_each_host(ranks: str, tmp_path: pathlib.Path) -> None:
    check_on_hosts_that_differ(TRAINING, ranks, "", tmp_path)
    check_on_hosts_that_differ(TRAINING + " --algorithm auto", ranks, "taskset -c 0", tmp_path)
