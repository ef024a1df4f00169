#!/usr/bin/env python3
"""Times PyTorch's all-reduce over gloo on the CPU, for ./learn bench: one JSON row per size.

Like all_reduce_perf, it sums float32 with one thread per rank, and checks the sum.
"""

import argparse
import json
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank_main(rank: int, ranks: int, sizes: list[int], samples: int, store: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
    for size in sizes:
        index = torch.arange(size // 4) % 997  # as in 01_send_recv/tracer_numbers.hpp
        expected = sum((1000 * r + index).float() for r in range(ranks))
        calls = 8 if size <= 64 * 1024 else 1
        times = []
        for _ in range(samples):
            data = [(1000 * rank + index).float() for _ in range(calls)]
            dist.barrier()
            begin = time.perf_counter()
            for tensor in data:
                dist.all_reduce(tensor)
            seconds = torch.tensor([(time.perf_counter() - begin) / calls], dtype=torch.float64)
            dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
            times.append(1e6 * seconds.item())
            assert torch.equal(data[0], expected), "gloo: wrong sum"
        if rank == 0:
            print(
                json.dumps({"algorithm": "gloo", "bytes": size, "ranks": ranks, "time_us": statistics.median(times)}),
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", required=True, help="bytes")
    parser.add_argument("--samples", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(
            rank_main,
            nprocs=options.ranks,
            args=(options.ranks, options.sizes, options.samples, os.path.join(folder, "store")),
        )
