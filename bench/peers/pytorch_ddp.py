#!/usr/bin/env python3
"""Lesson 5's job in PyTorch: DistributedDataParallel with the same data, model and batches.

Takes ddp_training's flags and prints its JSON rows, so that you can compare the two line by line:

  mpirun -np 4 build/bin/ddp_training          --dataset synthetic --json
  mpirun -np 4 python3 bench/peers/pytorch_ddp.py                   --json
  torchrun --nproc-per-node 4 bench/peers/pytorch_ddp.py            --json

Batches are rows of a tensor in memory, without a DataLoader. On a CPU, step_ms covers only forward,
backward with its all-reduce, and the optimizer; the all-reduce of the mean loss is not timed. On a
GPU, it is the time from the start of a step to the start of the next, the host never waits for a
step, and the losses are printed at the end. The optimizer is fused, the gradients are views of
buckets, the graph is static. Which settings are fastest depends on the model: --fastest first
tries DDP's and zero_grad's, --compile adds torch.compile, and --graph replays the step as one CUDA
graph.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gc
import hashlib
import inspect
import itertools
import json
import os
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any


def numbers(kind: Callable[[str], float]) -> Callable[[str], list[float]]:
    return lambda text: [kind(part) for part in text.split(",")]


def parse_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Lesson 5's job in PyTorch")
    add = parser.add_argument
    # ddp_training --help-all explains these.
    for name, choices in {
        "dataset": ["synthetic"],
        "optimizer": ["adam", "adamw", "sgd"],
        "precision": ["fp32", "bf16"],
        "device": ["auto", "cpu", "cuda"],
    }.items():
        add(f"--{name}", choices=choices, default=choices[0])
    for name, default in {
        "samples": 1000,
        "classes": 10,
        "batch-size": 64,
        "global-batch": 0,
        "max-steps": 0,
        "momentum": 0.0,
        "dampening": 0.0,
        "eps": 1e-8,
        "clip-norm": 0.0,
        "warmup-steps": 0,
        "sampler-seed": 0,
        "seed": 0,
        "bucket-cap-mb": 25.0,
    }.items():
        add(f"--{name}", type=type(default), default=default)
    for name, kind, several in (("layers", int, [784, 512, 512, 512, 10]), ("betas", float, [0.9, 0.999])):
        add(f"--{name}", type=numbers(kind), default=several)
    add("--epochs", type=int, help="default 5")
    add("--lr", type=float, help="default 0.001, for sgd 0.01")
    add("--weight-decay", type=float, help="default 0, for adamw 0.01")
    for name in ("nesterov", "scale-lr", "no-shuffle", "drop-last", "loader-drop-last", "json"):
        add(f"--{name}", action="store_true")
    add("--compile", action="store_true", help="compile the model")
    add("--fastest", action="store_true", help="try the settings of SETTINGS first")
    add("--graph", action="store_true", help="capture the step as a CUDA graph; prints no losses")
    return parser.parse_args()


flags = parse_flags()
# Matrix libraries read these variables when torch is loaded. Without them, each rank would
# start one thread per core.
for variable in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"]:
    os.environ[variable] = "1"

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

WARM_UP = 25  # DDP must have run at least 11 steps before its step is captured


def launched_as() -> tuple[int, int, int]:
    """(rank, ranks, local rank) from torchrun or Open MPI's mpirun; (0, 1, 0) if started alone."""
    for rank, ranks, local in [
        ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ]:
        if rank in os.environ and ranks in os.environ:
            return int(os.environ[rank]), int(os.environ[ranks]), int(os.environ.get(local, 0))
    return 0, 1, 0


def connect(backend: str, rank: int, ranks: int) -> None:
    # Gloo asks the resolver for this host's address, which may be unknown in a container.
    local_size = os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") or os.environ.get("LOCAL_WORLD_SIZE")
    if local_size is None or int(local_size) == ranks:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # torchrun sets the address at which the ranks meet. Under mpirun on one host, the ranks
    # derive a port from MPI's name for the job. On several hosts, pass -x MASTER_ADDR=... -x
    # MASTER_PORT=... to mpirun.
    job = os.environ.get("PMIX_NAMESPACE", str(os.getpid()))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(20000 + zlib.crc32(job.encode()) % 12000))
    if flags.graph:  # the thread that looks for errors would query events during the capture
        os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
    dist.init_process_group(backend, init_method="env://", rank=rank, world_size=ranks)


def make_model() -> nn.Sequential:
    layers: list[nn.Module] = []
    for width_in, width_out in zip(flags.layers, flags.layers[1:]):
        layers += [nn.Linear(width_in, width_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


# Each optimizer's class, our default rate and the flags that it has (optimizer_options.hpp).
OPTIMIZERS = {
    "adam": (torch.optim.Adam, 1e-3, ("betas", "eps")),
    "adamw": (torch.optim.AdamW, 1e-3, ("betas", "eps")),
    "sgd": (torch.optim.SGD, 1e-2, ("momentum", "dampening", "nesterov")),
}


def make_optimizer(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    kind, lr, names = OPTIMIZERS[flags.optimizer]
    settings = {name: getattr(flags, name) for name in names}
    settings["lr"] = lr if flags.lr is None else flags.lr
    if flags.weight_decay is not None:
        settings["weight_decay"] = flags.weight_decay
    if flags.graph and flags.optimizer != "sgd":
        settings["capturable"] = True
    try:
        return kind(parameters, fused=True, **settings)
    except (TypeError, RuntimeError):  # older versions fuse only on GPUs, or not at all
        return kind(parameters, **settings)


def learning_rate(lr: float, ranks: int, step: int) -> float:
    """The same as 05_ddp_training/optimizer/lr_schedule.hpp."""
    start, end = (lr, lr * ranks) if flags.scale_lr else (0.0, lr)
    if step >= flags.warmup_steps:
        return end
    return start + (end - start) * step / flags.warmup_steps


def batches_of(ranks: int, sampler: DistributedSampler, device: torch.device) -> Iterator[tuple[int, torch.Tensor]]:
    """(epoch, the indices of a batch) for every step."""
    size = flags.global_batch // ranks if flags.global_batch else flags.batch_size
    steps = 0
    # If only the number of steps is limited, train for as many epochs as needed.
    for epoch in range(flags.epochs or flags.max_steps or 5):
        sampler.set_epoch(epoch)
        order = torch.tensor(list(sampler), dtype=torch.int64, device=device)
        for batch in order.split(size):
            if steps == flags.max_steps > 0:
                return
            if len(batch) == size or not flags.loader_drop_last:
                yield epoch, batch
                steps += 1


# (gradient_as_bucket_view, batched_grad_copy, zero_grad's set_to_none)
Settings = tuple[bool, ...]
SETTINGS: list[Settings] = list(itertools.product((True, False), repeat=3))


class Step:
    """Forward, backward and optimizer. Returns the loss."""

    def __init__(self, model: nn.Module, device: torch.device, settings: Settings, compiled: bool = False) -> None:
        self.device = device
        view, batched, self.set_to_none = settings
        known = inspect.signature(DistributedDataParallel).parameters
        newer = {"batched_grad_copy": batched} if "batched_grad_copy" in known else {}
        self.ddp = DistributedDataParallel(
            model, bucket_cap_mb=flags.bucket_cap_mb, gradient_as_bucket_view=view, static_graph=True, **newer
        )
        self.forward = torch.compile(self.ddp) if compiled else self.ddp
        self.optimizer = make_optimizer(list(model.parameters()))
        self.loss_function = nn.CrossEntropyLoss()
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=self.set_to_none)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=flags.precision == "bf16"):
            loss = self.loss_function(self.forward(x), y)
        loss.backward()
        if flags.clip_norm:
            nn.utils.clip_grad_norm_(self.ddp.parameters(), flags.clip_norm)
        self.optimizer.step()
        return loss.detach()

    def replay(self, x: torch.Tensor, y: torch.Tensor, stream: torch.cuda.Stream | None) -> None:
        """The same as one CUDA graph, which is captured on first use."""
        if self.graph is None:
            self.x, self.y, self.graph = x.clone(), y.clone(), torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"):
                self(self.x, self.y)
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()


def fastest(model: nn.Module, device: torch.device, x: torch.Tensor, y: torch.Tensor) -> Settings:
    """The settings with which a step of the slowest rank is fastest."""
    times = []
    for settings in SETTINGS:
        step = Step(copy.deepcopy(model), device, settings)
        for _ in range(2):  # the first step allocates memory, and the second rebuilds the buckets
            step(x, y)
        seconds = []
        for _ in range(max(3, flags.max_steps // 8)):
            start = time.perf_counter()
            step(x, y).item()  # waits for a GPU
            seconds.append(time.perf_counter() - start)
        times.append(statistics.median(seconds))
    slowest = torch.tensor(times, device=device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return SETTINGS[slowest.argmin().item()]


def significant(value: float) -> float:
    return float(f"{value:.9g}")


def describe(tensor: torch.Tensor) -> dict[str, object]:
    values = tensor.detach().cpu().contiguous()
    return {
        "l2": significant(values.double().norm().item()),
        "first8": [significant(value) for value in values.flatten()[:8].tolist()],
        "sha256": hashlib.sha256(values.numpy().tobytes()).hexdigest(),
    }


def main() -> None:
    rank, ranks, local_rank = launched_as()
    if flags.global_batch % ranks:
        sys.exit(f"error: --global-batch: {flags.global_batch} is not divisible by {ranks} ranks")
    if flags.layers[-1] != flags.classes:
        sys.exit(f"error: --layers: the output width is {flags.layers[-1]}, not {flags.classes}")
    on_gpu = flags.device == "cuda" or (flags.device == "auto" and torch.cuda.is_available())
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    backend = "nccl" if on_gpu else "gloo"
    torch.set_num_threads(1)
    connect(backend, rank, ranks)

    # The random numbers depend on this order, because a single generator draws them all.
    torch.manual_seed(flags.seed)
    model = make_model()
    inputs = torch.randn(flags.samples, flags.layers[0])
    targets = torch.randint(0, flags.layers[-1], (flags.samples,))
    model, inputs, targets = model.to(device), inputs.to(device), targets.to(device)
    sampler = DistributedSampler(
        range(flags.samples),
        num_replicas=ranks,
        rank=rank,
        shuffle=not flags.no_shuffle,
        seed=flags.sampler_seed,
        drop_last=flags.drop_last,
    )

    def say(row: dict[str, Any]) -> None:
        if rank == 0 and flags.json:
            print(json.dumps(row, separators=(",", ":")), flush=True)

    def report(row: dict[str, Any], loss: torch.Tensor) -> None:
        mean = loss.double()
        if ranks > 1:
            dist.all_reduce(mean)
        row["loss"] = significant(mean.item() / ranks)
        say(row)

    rows: list[dict[str, Any]] = []
    times: list[float] = []
    losses, starts = [], []  # on a GPU: tensors, and events
    stream = torch.cuda.Stream() if on_gpu else None
    # DDP must be created on the stream on which it is captured.
    with torch.cuda.stream(stream) if on_gpu else contextlib.nullcontext():
        settings: Settings = (True, on_gpu, True)
        if flags.fastest:
            size = flags.batch_size
            settings = fastest(model, device, inputs[:size], targets[:size])
        step = Step(model, device, settings, flags.compile)
        base_lr = step.optimizer.param_groups[0]["lr"]
        if on_gpu:
            torch.cuda.synchronize()
        for epoch, batch in batches_of(ranks, sampler, device):
            lr = learning_rate(base_lr, ranks, len(rows))
            for group in step.optimizer.param_groups:
                group["lr"] = lr
            rows.append({"step": len(rows), "epoch": epoch, "loss": None, "lr": significant(lr)})
            if on_gpu:
                starts.append(torch.cuda.Event(enable_timing=True))
                starts[-1].record()
            start = time.perf_counter()
            if flags.graph and len(rows) > WARM_UP:
                step.replay(inputs[batch], targets[batch], stream)
                continue
            loss = step(inputs[batch], targets[batch])
            times.append(1e3 * (time.perf_counter() - start))
            if on_gpu:
                losses.append(loss)
            else:
                report(rows[-1], loss)
    if on_gpu:
        torch.cuda.synchronize()
        times = [begin.elapsed_time(end) for begin, end in zip(starts, starts[1:])]
        for row, loss in zip(rows, [] if flags.graph else losses):
            report(row, loss)

    # The first steps allocate memory, rebuild the buckets and capture the graph.
    left_out = min(WARM_UP + 5 if flags.graph else 5, len(times) // 2)
    final = {
        "final": True,
        "steps": len(rows),
        "parameters": {name: describe(p) for name, p in model.named_parameters()},
        "step_ms": significant(statistics.median(times[left_out:])) if times else None,
        "device": str(device),
        "backend": backend,
        "ranks": ranks,
        "torch": torch.__version__,
        "settings": dict(zip(("view", "batched_copy", "set_to_none"), settings)),
    }
    say(final)
    if rank == 0 and not flags.json:
        print(
            f"PyTorch {final['torch']}, {ranks} ranks over {backend} on {device}: {len(rows)} "
            f"steps, loss {rows[-1]['loss']}, one step {final['step_ms']} ms"
        )


if __name__ == "__main__":
    main()
    gc.collect()  # as in pytorch_twin.py
    dist.destroy_process_group()
