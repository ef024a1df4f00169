"""distributed_sampler: what each policy repeats and leaves out, and shards of ranks that do not run."""

import re

import pytest
from programs import command, runs


@pytest.mark.parametrize("ranks", [1, 3, 4])
@pytest.mark.parametrize("size", [1, 2, 3, 10, 12, 1001])
def test_each_sampling_policy_counts_what_it_repeats_and_leaves_out(ranks: int, size: int) -> None:
    out = runs(ranks, f"distributed_sampler --size {size}").out
    up, down = -(-size // ranks) * ranks, size // ranks * ranks
    again = min(up - size, size)
    for policy, taken, once, repeated, never in [
        ("pad", up, size - again, again, 0),
        ("drop", down, down, 0, size - down),
        ("exact", size, size, 0, 0),
    ]:
        per_rank = r"\d+( to \d+)?"
        row = f"^ +{policy} +{taken} +{per_rank} +{once} +{repeated} +{never} "
        assert re.search(row, out, re.M), f"{row}\n{out}"


def test_the_sampler_gives_the_shards_of_ranks_that_are_not_running() -> None:
    launched = runs(3, "distributed_sampler --size 11 --json").rows
    assert len(launched) == 3
    for rank in range(3):
        alone = command(f"$BIN/distributed_sampler --size 11 --json --num-replicas 3 --rank {rank}")
        assert alone.rows == [launched[rank]]
