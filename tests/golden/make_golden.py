#!/usr/bin/env python3
"""make_golden.py [--write] [NAME...]: makes the golden files again with this Python's PyTorch, on the CPU.

Each file holds its own cases, such as a seed, a size and an optimizer. This script computes their results
anew, and compares them with the file's: integers, text and hashes exactly, other numbers as the tests do.
With --write, it puts the new results into the file. hooks.json and the gradients of two ranks need two
processes, which it starts itself.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import numpy
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.optim.adam import adam as one_step_of_adam
from torch.optim.sgd import sgd as one_step_of_sgd
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

FOLDER = pathlib.Path(__file__).resolve().parent
ABOUT = {"torch_version_string", "torch_version", "package", "cpu_capability", "note"}  # not results

Json = dict[str, Any]
OfRank = Callable[[int, int, Json], Json]


class NotHere(Exception):
    pass


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sha256(array: torch.Tensor | list[int], kind: str) -> str:
    return hashlib.sha256(numpy.ascontiguousarray(numpy.asarray(array).astype(kind)).tobytes()).hexdigest()


def floats(tensor: torch.Tensor) -> list[float]:
    return [float(f"{x:.9g}") for x in tensor.detach().flatten().tolist()]


def like(old: Json, numbers: torch.Tensor, kind: str) -> Json:
    """The numbers as the file has others of their kind: all of them, or both ends and a hash."""
    listed = floats(torch.as_tensor(numbers)) if kind == "f32" else [int(x) for x in numbers]
    new = {
        "values": listed,
        "first8": listed[:8],
        "last4": listed[-4:],
        "last2": listed[-2:],
        "sha256_i64": sha256(numbers, "<i8"),
        "sha256_f32": sha256(numbers, "<f4"),
    }
    return {**old, **{key: new[key] for key in old if key in new}}


# One function per file: from its content to the same with new results.


def make_rng(old: Json) -> Json:
    new = dict(old)
    new["randperm"] = [
        like(case, torch.randperm(case["n"], generator=generator(case["seed"])), "i64") for case in old["randperm"]
    ]
    # For ranges from 2^28 on, PyTorch now draws 64 bits; 1.13 and our randint do so from 2^32 on. No label is
    # that large, so these cases stay as they are.
    new["randint"] = [
        case
        if 1 << 28 <= case["high"] - case["low"] < 1 << 32
        else like(
            case, torch.randint(case["low"], case["high"], (case["n"],), generator=generator(case["seed"])), "i64"
        )
        for case in old["randint"]
    ]
    new["uniform"] = [
        like(case, torch.empty(case["n"]).uniform_(case["lo"], case["hi"], generator=generator(case["seed"])), "f32")
        for case in old["uniform"]
    ]
    new["randn"] = [
        like(case, torch.randn(case["n"], generator=generator(case["seed"])), "f32") for case in old["randn"]
    ]
    new["sequences"] = []
    for case in old["sequences"]:
        source = generator(case["seed"])
        draw: dict[str, Callable[..., tuple[torch.Tensor, str]]] = {
            "randn": lambda n, source=source: (torch.randn(n, generator=source), "f32"),
            "uniform": lambda n, source=source: (torch.rand(n, generator=source), "f32"),
            "randint": lambda high, n, source=source: (torch.randint(0, high, (n,), generator=source), "i64"),
            "randperm": lambda n, source=source: (torch.randperm(n, generator=source), "i64"),
        }
        results = []
        for result in case["results"]:
            name, *numbers = result["op"].split(":")
            results.append(like(result, *draw[name](*map(int, numbers))))
        new["sequences"].append({**case, "results": results})
    return new


def make_sampler(old: Json) -> Json:
    cases = []
    for case in old["cases"]:
        ranks = []
        for rank in range(case["world"]):
            sampler = DistributedSampler(
                range(case["n"]), case["world"], rank, case["shuffle"], case["seed"], case["drop_last"]
            )
            sampler.set_epoch(case["epoch"])
            ranks.append(list(sampler))
        new = {
            "num_samples": len(ranks[0]),
            "total_size": len(ranks[0]) * case["world"],
            "indices": ranks,
            "first8": [rank[:8] for rank in ranks],
            "last2": [rank[-2:] for rank in ranks],
            "sha256_i64": [sha256(rank, "<i8") for rank in ranks],
        }
        cases.append({**case, **{key: new[key] for key in case if key in new}})
    return {**old, "cases": cases}


def make_ddp(old: Json) -> Json:
    buckets = []
    for case in old["buckets"]:
        tensors = [torch.empty(count) for count in case["numel"]]
        limits, none = [1 << 20, case["bucket_cap_mb"] << 20], [False] * len(tensors)
        order = list(range(len(tensors)))

        def assigned(
            of: list[torch.Tensor], limits: list[int], *ready: list[int], none: list[bool] = none
        ) -> list[list[int]]:
            return [list(bucket) for bucket in dist._compute_bucket_assignment_by_size(of, limits, none, *ready)[0]]

        buckets.append(
            {
                **case,
                "first_iteration": assigned(tensors, [1 << 62]),
                "rebuilt": assigned(tensors[::-1], limits, order[::-1]),
                "registration_order_limits": assigned(tensors, limits),
            }
        )
    losses = []
    for case in old["cross_entropy"]:
        source = generator(case["seed"])
        logits = torch.randn(case["batch"], case["classes"], generator=source).requires_grad_()
        targets = torch.randint(0, case["classes"], (case["batch"],), generator=source)
        loss = functional.cross_entropy(logits, targets)
        loss.backward()
        losses.append(
            {
                **case,
                "logits": floats(logits),
                "targets": targets.tolist(),
                "loss": loss.item(),
                "grad": floats(logits.grad),
            }
        )
    return {**old, "buckets": buckets, "cross_entropy": losses}


def optimizer_of(case: Json, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    flags = {key: value for key, value in case.items() if key != "type"}
    if "betas" in flags:
        flags["betas"] = tuple(flags["betas"])
    return {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[case["type"]](
        parameters, **flags
    )


def make_optim(old: Json) -> Json:
    source = generator(0)
    start, *grads = (torch.randn(11, generator=source) for _ in range(5))
    grads[1] *= 1e-4
    grads[2][0] = 0
    cases = []
    for case in old["cases"]:
        parameter = nn.Parameter(start.clone())
        optimizer, after = optimizer_of(case["optimizer"], [parameter]), []
        for grad in grads:
            parameter.grad = grad.clone()
            optimizer.step()
            after.append(floats(parameter))
        cases.append({**case, "params_after": after})
    return {**old, "p0": floats(start), "grads": [floats(grad) for grad in grads], "cases": cases}


def clipped(b: torch.Tensor, g: torch.Tensor) -> list[torch.Tensor]:
    parameter = nn.Parameter(b)
    parameter.grad = g
    return [nn.utils.clip_grad_norm_(parameter, 1.0), parameter.grad]


def stepped_by_sgd(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor | None = None) -> list[torch.Tensor]:
    """The second step of an optimizer, whose momentum `m` is."""
    momentum, dampening = (0.0, 0.0) if m is None else (0.75, 0.25)
    one_step_of_sgd(
        [p], [g], [m], weight_decay=0, momentum=momentum, lr=0.5, dampening=dampening, nesterov=False, maximize=False
    )
    return [p] if m is None else [p, m]


def stepped_by_adam(p: torch.Tensor, m: torch.Tensor, v: torch.Tensor, g: torch.Tensor) -> list[torch.Tensor]:
    options = dict(amsgrad=False, beta1=0.9, beta2=0.999, lr=0.5, weight_decay=0, eps=1e-8, maximize=False)
    one_step_of_adam([p], [g], [m], [v], [], [torch.ones(())], foreach=False, **options)
    return [p, m, v]


def with_gradients(loss: torch.Tensor, of: list[torch.Tensor]) -> list[torch.Tensor]:
    return [loss, *torch.autograd.grad(loss, of)]


def modelled(x: torch.Tensor, t: torch.Tensor, *layers: torch.Tensor) -> list[torch.Tensor]:
    w0, b0, w2, b2 = layers
    y = functional.linear(functional.relu(functional.linear(x, w0, b0)), w2, b2)
    return [y, *with_gradients(functional.cross_entropy(y, t), [*layers])]


# What PyTorch makes of numbers that are not finite. The arguments are named as in a case's `in`.
NONFINITE: dict[str, Callable[..., list[torch.Tensor]]] = {
    "relu": lambda g, b: [functional.relu(g + b)],
    "relu_backward": lambda y, g: [torch.ops.aten.threshold_backward(g, y, 0)],
    "cross_entropy": lambda x, t: with_gradients(functional.cross_entropy(x, t), [x]),
    "clip": clipped,
    "sgd": stepped_by_sgd,
    "momentum": stepped_by_sgd,
    "adam": stepped_by_adam,
    "model": lambda x, t, w0, b0, w2, b2: modelled(x, t, w0, b0, w2, b2),
}


def make_nonfinite(old: Json) -> Json:
    def tensor(name: str, numbers: list[Any]) -> torch.Tensor:
        if name == "t":
            return torch.tensor(numbers)
        whole = torch.tensor(numpy.array(numbers, dtype=object).astype(float)).float()
        return whole.requires_grad_(name in ("x", "w0", "b0", "w2", "b2"))

    ops = []
    for op in old["ops"]:
        cases = []
        for case in op["cases"]:
            given = {**op["cases"][0]["in"], **case["in"]}
            results = NONFINITE[op["op"]](**{name: tensor(name, numbers) for name, numbers in given.items()})
            cases.append(
                {**case, "want": [[x if math.isfinite(x) else str(x) for x in floats(result)] for result in results]}
            )
        ops.append({**op, "cases": cases})
    return {**old, "ops": ops}


class Tied(nn.Module):
    """break_it/tied_model.hpp in PyTorch."""

    def __init__(self, characters: int = 11, width: int = 6) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.position = nn.Embedding(3, width)
        self.hidden = nn.Linear(3 * width, width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = (self.embedding(ids) + self.position.weight).flatten(1)
        return functional.linear(self.hidden(x).relu(), self.embedding.weight)


def make_tied(old: Json) -> Json:
    torch.manual_seed(7)
    model = Tied()
    ids, targets = torch.randint(0, 11, (20, 3)), torch.randint(0, 11, (20,))

    def numbers(part: Callable[[nn.Parameter], torch.Tensor]) -> dict[str, list[float]]:
        return {name: part(each).flatten().tolist() for name, each in model.named_parameters()}

    new = {
        **old,
        "ids": ids.flatten().tolist(),
        "targets": targets.tolist(),
        "parameters": numbers(lambda each: each.detach()),
    }
    for name, rows in ("first", slice(0, 12)), ("both", slice(12, 20)):  # the second is added to the first
        loss = functional.cross_entropy(model(ids[rows]), targets[rows])
        loss.backward()
        new[name] = {"loss": loss.item(), "gradients": numbers(lambda each: each.grad)}
    return new


# Files that need several ranks: a function that all ranks call, which returns the result on rank 0.


def on_rank(rank: int, ranks: int, function: OfRank, given: Json, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
    result = function(rank, ranks, given)
    if rank == 0:
        torch.save(result, f"{folder}/result")
    dist.barrier()
    dist.destroy_process_group()


def on_ranks(ranks: int, function: OfRank, given: Json) -> Json:
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(on_rank, (ranks, function, given, folder), ranks)
        return torch.load(f"{folder}/result")


def described(named: Iterable[tuple[str, torch.Tensor]], old: list[Json]) -> list[Json]:
    each = {one["name"]: one for one in old}
    return [
        {
            **each[name],
            "shape": list(tensor.shape),
            "first8": floats(tensor)[:8],
            "l2": float(tensor.detach().double().norm()),
            **({"sha256_f32": sha256(tensor.detach(), "<f4")} if "sha256_f32" in each[name] else {}),
        }
        for name, tensor in named
    ]


def train(rank: int, ranks: int, old: Json) -> Json:
    torch.manual_seed(old["seed"])
    layers = [[nn.Linear(*sizes), nn.ReLU()] for sizes in zip(old["layers"], old["layers"][1:])]
    model = nn.Sequential(*sum(layers, [])[:-1])
    data = TensorDataset(torch.randn(old["n"], old["layers"][0]), torch.randint(0, old["classes"], (old["n"],)))
    new: Json = {
        **old,
        "x": like(old["x"], data.tensors[0], "f32"),
        "y": like(old["y"], data.tensors[1], "i64"),
        "init_params": described(model.named_parameters(), old["init_params"]),
    }
    ddp = DistributedDataParallel(model)
    of = old["sampler"]
    sampler = DistributedSampler(data, ranks, rank, of["shuffle"], of["seed"], of["drop_last"])
    loader = DataLoader(data, old["batch_per_rank"], sampler=sampler, drop_last=old["loader_drop_last"])
    optimizer = optimizer_of(old["optimizer"], ddp.parameters())
    losses: list[list[float]] = []
    for epoch in range(old["epochs"]):
        sampler.set_epoch(epoch)
        mine: list[float] = []
        for x, y in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(ddp(x), y)
            loss.backward()
            if not losses and not mine:
                grads = [(name, each.grad) for name, each in model.named_parameters()]
                new["grads_step1_after_allreduce"] = described(grads, old["grads_step1_after_allreduce"])
            optimizer.step()
            mine.append(loss.item())
        losses.append(mine)
    of_all: list[list[list[float]]] = [[]] * ranks
    dist.all_gather_object(of_all, losses)
    new["loss_per_epoch_per_step"] = [[float(numpy.mean(step)) for step in zip(*epoch)] for epoch in zip(*of_all)]
    new["rank_losses_epoch0"] = [one[0] for one in of_all]
    new["final_params"] = described(model.named_parameters(), old["final_params"])
    logits = model(data.tensors[0])
    new["final_full_dataset"] = {
        "loss": functional.cross_entropy(logits, data.tensors[1]).item(),
        "correct": int((logits.argmax(1) == data.tensors[1]).sum()),
    }
    return new


def make_training(old: Json) -> Json:
    return {**old, "runs": [on_ranks(run["world"], train, run) for run in old["runs"]]}


def compress(rank: int, ranks: int, old: Json) -> Json:
    # Here, because PyTorch 1.13 has no bf16 on CPUs.
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
    from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

    def exchange(
        hook: Callable[..., torch.futures.Future[torch.Tensor]], state: PowerSGDState | None, steps: Iterable[int]
    ) -> Iterator[list[float]]:
        ddp = DistributedDataParallel(nn.Embedding(6, 5))
        ddp.register_comm_hook(state, hook)
        for step in steps:
            n = torch.arange(30)
            numbers = (n * n * 7 + n * (step + 3) + 13 * rank + 5) % 29 - 14
            ddp.zero_grad()
            (ddp(torch.arange(6)) * numbers.view(6, 5).float() / 7).sum().backward()
            yield ddp.module.weight.grad.flatten().tolist()

    state = PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2, random_seed=0)
    return {
        **old,
        "seed": int(numpy.random.RandomState(0).randint(1_000_000_000)),  # of its first Q
        "bf16": next(exchange(bf16_compress_hook, None, [0])),
        "powersgd": [*exchange(powerSGD_hook, state, range(-2, 3))][2:],
    }  # it leaves two steps as they are


def make_hooks(old: Json) -> Json:
    if torch.__version__ < "2":
        raise NotHere("PyTorch 1.13 has no bf16 on CPUs")
    return on_ranks(2, compress, old)


def differences(old: object, new: object, path: str) -> list[str]:
    """Where the two differ by more than the tests allow."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [found for key in old if key not in ABOUT for found in differences(old[key], new[key], f"{path}.{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [found for i, pair in enumerate(zip(old, new)) for found in differences(*pair, f"{path}[{i}]")]
    near = old == new
    if isinstance(old, (int, float)) and isinstance(new, (int, float)) and float in (type(old), type(new)):
        near = math.isclose(old, new, rel_tol=1e-5, abs_tol=1e-6)
    return [] if near else [f"{path}: {old} in the file, {new} now"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        default=[],
        help="rng, sampler, ddp, optim, nonfinite, tied, training or hooks; all by default",
    )
    options = parser.parse_args()
    makers = {name[5:]: make for name, make in globals().items() if name.startswith("make_")}
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}")
    failed = False
    for name in options.names or makers:
        path = FOLDER / f"{name}.json"
        old = json.loads(path.read_text())
        try:
            new = makers[name](old)
        except NotHere as why:
            print(f"{name}: left out: {why}")
            continue
        found = differences(old, new, name)
        print(f"{name}: {'as in the file' if not found else f'{len(found)} differences, first {found[0]}'}", flush=True)
        failed = failed or bool(found)
        if options.write:
            path.write_text(json.dumps(new, separators=(",", ":")) + "\n")
    sys.exit(failed and not options.write)


if __name__ == "__main__":
    main()
