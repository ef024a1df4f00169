"""When another thread sends gradients while backward goes on."""

import os
import pathlib

from programs import runs


def test_by_default_another_thread_sends_only_where_each_rank_has_a_core_more(tmp_path: pathlib.Path) -> None:
    cores = len(os.sched_getaffinity(0))
    for threads in {1, max(1, cores // 2), max(1, (cores - 1) // 2)}:
        runs(
            2,
            "ddp_training --device cpu --dataset synthetic --samples 256 --max-steps 2 "
            f"--threads {threads} --trace {tmp_path}/t.json",
        )
        rows = (tmp_path / "t.json").read_text()
        assert ('"all-reduces"' in rows) == (cores > 2 * threads), threads
