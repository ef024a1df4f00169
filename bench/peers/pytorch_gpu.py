#!/usr/bin/env python3
"""A training step of PyTorch's DistributedDataParallel on GPUs, eager or as one CUDA graph.

  mpirun -np 2 python3 bench/peers/pytorch_gpu.py --layers 784,512,10 --batch-size 64 --graph

Adam, float32, the settings that are fastest without torch.compile: a fused optimizer, gradients as
views of buckets, a static graph. Prints one JSON row, whose step_ms is the median time from the start of a step on the
GPU to the start of the next. The host never waits for a step, and never reads the loss. The
batches are in GPU memory. --device cpu is for testing this script.
"""
import argparse
import inspect
import json
import os
import statistics
import time
import zlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WARM_UP = 25  # DDP must have run at least 11 steps before its step is captured


def parse_flags():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", default="784,512,512,512,10")
    parser.add_argument("--batch-size", type=int, default=64, help="samples per rank")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--graph", action="store_true", help="capture the step as a CUDA graph")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    return parser.parse_args()


def connect(backend):
    rank, ranks, local = (int(os.environ.get(f"OMPI_COMM_WORLD_{name}", otherwise))
                          for name, otherwise in (("RANK", 0), ("SIZE", 1), ("LOCAL_RANK", 0)))
    job = os.environ.get("PMIX_NAMESPACE", str(os.getpid()))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(20000 + zlib.crc32(job.encode()) % 12000))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # The thread that looks for errors would query events while a stream captures.
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
    if backend == "nccl":
        torch.cuda.set_device(local)
    dist.init_process_group(backend, init_method="env://", rank=rank, world_size=ranks)
    return rank, ranks, local


class Job:
    def __init__(self, flags, device):
        widths = [int(width) for width in flags.layers.split(",")]
        layers = []
        for width_in, width_out in zip(widths, widths[1:]):
            layers += [nn.Linear(width_in, width_out), nn.ReLU()]
        known = inspect.signature(DistributedDataParallel).parameters
        newer = {name: True for name in ("batched_grad_copy",) if name in known}
        self.ddp = DistributedDataParallel(nn.Sequential(*layers[:-1]).to(device),
                                           gradient_as_bucket_view=True, static_graph=True, **newer)
        self.optimizer = torch.optim.Adam(self.ddp.parameters(), lr=1e-3, fused=True,
                                          capturable=flags.graph)
        self.loss = nn.CrossEntropyLoss()
        # Four batches, and the memory from which a step reads its own.
        self.inputs = torch.randn(4, flags.batch_size, widths[0], device=device)
        self.targets = torch.randint(0, widths[-1], (4, flags.batch_size), device=device)
        self.x, self.y = self.inputs[0].clone(), self.targets[0].clone()

    def load(self, step):
        self.x.copy_(self.inputs[step % 4])
        self.y.copy_(self.targets[step % 4])

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.ddp(self.x), self.y).backward()
        self.optimizer.step()


def times_on_cpu(job, steps):
    marks = [time.perf_counter()]
    for step in range(steps):
        job.load(step)
        job.step()
        marks.append(time.perf_counter())
    return [1e3 * (end - begin) for begin, end in zip(marks, marks[1:])]


def times_on_gpu(flags):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):  # DDP must be created on the stream on which it is captured
        job = Job(flags, torch.device("cuda", torch.cuda.current_device()))
        for step in range(WARM_UP):
            job.load(step)
            job.step()
        torch.cuda.synchronize()
        run = job.step
        if flags.graph:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
                job.step()
            run = graph.replay
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(flags.steps + 1)]
        marks[0].record()
        for step in range(flags.steps):
            job.load(step)
            run()
            marks[step + 1].record()
        torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in zip(marks, marks[1:])]


def main():
    flags = parse_flags()
    torch.manual_seed(0)
    on_gpu = flags.device == "cuda"
    rank, ranks, _ = connect("nccl" if on_gpu else "gloo")
    times = times_on_gpu(flags) if on_gpu else times_on_cpu(Job(flags, "cpu"), flags.steps)
    if rank == 0:
        print(json.dumps({"step_ms": statistics.median(times), "ranks": ranks,
                          "torch": torch.__version__}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
