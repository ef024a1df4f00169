#!/usr/bin/env python3
"""Times PyTorch's all-reduce over gloo on the CPU, for ./learn bench.

Prints one JSON row per size. Like ours, it sums float32 with one thread per rank.
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


def rank_main(rank, ranks, sizes, samples, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
    for size in sizes:
        count = size // 4
        # As in 01_send_recv/tracer_numbers.hpp, every number shows the rank that it comes
        # from.
        numbers = (1000 * rank + torch.arange(count) % 997).float()
        expected = sum((1000 * r + torch.arange(count) % 997).float() for r in range(ranks))
        calls = 8 if size <= 64 * 1024 else 1
        times = []
        for _ in range(samples):
            data = [numbers.clone() for _ in range(calls)]
            dist.barrier()
            begin = time.perf_counter()
            for tensor in data:
                dist.all_reduce(tensor)
            seconds = torch.tensor([(time.perf_counter() - begin) / calls], dtype=torch.float64)
            dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
            times.append(seconds.item())
            assert torch.equal(data[0], expected), "gloo: wrong sum"
        if rank == 0:
            print(json.dumps({"name": "gloo", "bytes": size, "ranks": ranks,
                              "time_us": 1e6 * statistics.median(times)}), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--sizes", required=True)
    parser.add_argument("--samples", type=int, default=5)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, nprocs=options.ranks,
                 args=(options.ranks, sizes, options.samples, os.path.join(folder, "store")))


if __name__ == "__main__":
    main()
