#!/usr/bin/env python3
"""gpt/main.cpp in PyTorch. These two commands train the same model on the same windows of a text:

  torchrun --nproc_per_node 2 05_ddp_training/advanced/gpt/pytorch_twin.py
  mpirun -np 2 build/bin/gpt_training --max-steps 60 --json

Their losses agree to five digits or more. Without torchrun the script trains in one process.
"""

import argparse
import gc
import itertools
import math
import os
import statistics
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

CONTEXT, WIDTH, HEADS, BLOCKS = 64, 64, 4, 2
TEXT = Path(__file__).with_name("text") / "pride_and_prejudice.txt"


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in self.c_attn(x).chunk(3, dim=2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:  # PyTorch 1.13
            later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            products = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
            y = products.masked_fill(later, -torch.inf).softmax(3) @ v
        return self.c_proj(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(WIDTH), Attention()
        self.ln_2, self.mlp = nn.LayerNorm(WIDTH), FeedForward()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.ln_f = nn.LayerNorm(WIDTH)
        torch.manual_seed(0)  # from here on, the numbers of our program
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                smaller = math.sqrt(2 * BLOCKS) if name.endswith("c_proj.weight") else 1
                parameter.data = torch.randn(parameter.shape) * (0.02 / smaller)
            else:
                nn.init.constant_(parameter, 1 if name.endswith("weight") else 0)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)


class Windows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __init__(self, tokens: torch.Tensor) -> None:
        self.tokens = tokens

    def __len__(self) -> int:
        return len(self.tokens) - CONTEXT

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.tokens[i : i + CONTEXT], self.tokens[i + 1 : i + CONTEXT + 1]


def rate(step: int, steps: int, peak: float) -> float:
    if step < 100:
        return peak * step / 100
    return peak * (0.1 + 0.9 / 2 * (1 + math.cos(math.pi * (step - 100) / (steps - 100))))


def main() -> None:
    parser = argparse.ArgumentParser(description="a GPT in PyTorch")
    parser.add_argument("--max-steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--compile", action="store_true")
    flags = parser.parse_args()
    if "RANK" not in os.environ:
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    text = TEXT.read_bytes()
    places = {byte: place for place, byte in enumerate(sorted(set(text)))}
    data = Windows(torch.tensor([places[byte] for byte in text[: len(text) // 10 * 9]]))
    model = Gpt(len(places))
    ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)
    run = torch.compile(ddp) if flags.compile else ddp
    groups = [
        {"params": [p for p in model.parameters() if p.dim() == 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ]
    is_recent = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4)
    fused = {"fused": True} if is_recent else {}
    optimizer = torch.optim.AdamW(groups, lr=flags.lr, betas=(0.9, 0.99), **fused)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, flags.batch_size, sampler=sampler, drop_last=True)
    step, epoch, ends = 0, 0, []
    while step < flags.max_steps:
        sampler.set_epoch(epoch)
        epoch += 1
        for ids, targets in loader:
            if step == flags.max_steps:
                break
            for group in optimizer.param_groups:
                group["lr"] = rate(step, max(flags.max_steps, 101), flags.lr)
            optimizer.zero_grad(set_to_none=False)
            loss = F.cross_entropy(run(ids).flatten(0, 1), targets.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1)
            optimizer.step()
            mean = loss.detach()
            dist.all_reduce(mean)
            if rank == 0:
                print(f'{{"step":{step},"loss":{mean / ranks:.9g}}}', flush=True)
            ends.append(time.perf_counter())
            step += 1
    if rank == 0:
        some = [end - begin for begin, end in itertools.pairwise(ends[step // 3 :])]
        print(f'{{"final":true,"step_ms":{1000 * statistics.median(some):.3f}}}')


if __name__ == "__main__":
    main()
    gc.collect()  # ddp, or Gloo's threads may abort the process when Python ends
    dist.destroy_process_group()
