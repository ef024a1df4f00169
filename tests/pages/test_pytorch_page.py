"""What docs/pytorch.md and other pages say of PyTorch is what PyTorch does. $PYTHON names a Python
that has it."""

import os
import pathlib
import random
import re
import socket
import struct
import subprocess

import pytest
from programs import ROOT, command
from pytorch import ON_CPU, RECENT, TWIN, code_on, python_with, theirs, torchrun
from training import Training, assert_twins, near, train

from disturbed import wait_until

READ = """
import numpy, torch
def read(kind, header):
    with open(f"t10k-{kind}-ubyte", "rb") as file:
        return torch.from_numpy(numpy.frombuffer(file.read(), numpy.uint8)[header:].copy())
images, labels = read("images-idx3", 16).view(-1, 28, 28), read("labels-idx1", 8).long()
"""


def test_the_pages_lines_test_our_model_in_pytorch_as_we_do(tmp_path: pathlib.Path) -> None:
    """On noisy images, of which a model that is trained for a moment knows some."""
    python = python_with("numpy, safetensors.torch")
    noise = random.Random(5)
    for name, size in (("train", 600), ("t10k", 400)):
        labels = [noise.randrange(10) for _ in range(size)]
        images = bytes(
            noise.randrange(256) // (1 if pixel // 78 == label else 2) for label in labels for pixel in range(784)
        )
        (tmp_path / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, size, 28, 28) + images)
        (tmp_path / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, size) + bytes(labels))
    ours = train(2, "--dataset idx --data . --max-steps 5 --checkpoint model.safetensors", tmp_path)
    assert 0.2 < ours.final["test_accuracy"] < 0.95
    page = (ROOT / "docs/running.md").read_text()
    code = re.findall(r"```python\n(import torch\n.*?)```", page, re.S)[0]
    (tmp_path / "script.py").write_text(READ + code)
    assert float(theirs(f"{python} script.py", tmp_path).out) == near(ours.final["test_accuracy"])


# What docs/pytorch.md says of PyTorch 2.13 or newer, as far as two ranks on a CPU can show it:
def test_two_launchers_meet_as_those_of_two_hosts_do(tmp_path: pathlib.Path) -> None:
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    line = (
        f"{python_with(RECENT)} -m torch.distributed.run --nnodes=2 "
        "--nproc-per-node=1 --rdzv-backend=c10d --rdzv-id=digits "
        f"--rdzv-endpoint=localhost:{port} {TWIN}"
    )
    twin = Training(theirs(f"{line} >other & {line}; wait; cat other", tmp_path))
    assert_twins(train(2, "--device cpu --dataset synthetic").losses, twin.losses)


STOPS = """
import os, signal, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, device, last = dist.get_rank(), "cpu", int(sys.argv[1])
torch.manual_seed(rank)
model = torch.nn.Linear(20, 3)
optimizer = torch.optim.Adam(model.parameters())
"""

LOOP = """
first = step = load("last", model, optimizer)
ddp = torch.nn.parallel.DistributedDataParallel(model)
stop = False
while step < last and not stop:
    ddp(torch.sin(torch.arange(80).view(4, 20) * (step + 1.0) + rank)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    step += 1
    stop = must_stop()
    if rank == 0 and (stop or step in (50, last)):
        save("last", step, model, optimizer)
if rank == 0:
    print(f"{first} to {step}: {model.weight.sum().item()}")
"""


def test_the_pages_lines_let_a_run_stop_and_go_on(tmp_path: pathlib.Path) -> None:
    """A run that is asked to stop, and continued, ends with the numbers of one that never was."""
    python = python_with(RECENT)
    (tmp_path / "script.py").write_text(STOPS + code_on("docs/pytorch.md", "def load") + LOOP)
    words = f"{torchrun(python)} script.py"
    with subprocess.Popen(
        ["bash", "-c", f"exec {words} 1000000000"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **ON_CPU},
    ) as stopped:
        wait_until((tmp_path / "last").exists, stopped)
        stopped.terminate()
        assert stopped.stdout
        said = stopped.stdout.read().decode()
    steps = int(re.findall(r"\A0 to (\d+): ", said)[0])
    assert steps >= 50
    more = theirs(f"{words} {steps + 20}", tmp_path).out
    assert more.startswith(f"{steps} to {steps + 20}: ")
    (tmp_path / "last").unlink()
    assert theirs(f"{words} {steps + 20}", tmp_path).out.split()[-1] == more.split()[-1]


# Two ranks, and the same batches, all at once, on one.
ACCUMULATES = """
import contextlib, torch, torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_
dist.init_process_group("gloo")
rank, ranks, device, K = dist.get_rank(), 2, "cpu", 3
def batches(rank):
    for i in range(5):
        x = torch.sin(torch.arange(24).view(4, 6) * (i + 1.0) + rank)
        y = (torch.arange(4) * (i + 2) + rank) % 3
        y[:(i + 2 * rank) % 4] = -100
        yield x, y
def groups_of(loader, k):
    loader = list(loader)
    return [loader[i:i + k] for i in range(0, len(loader), k)]
def make():
    torch.manual_seed(1)
    model = torch.nn.Linear(6, 3)
    return model, torch.optim.SGD(model.parameters(), lr=2.0)
alone, optimizer = make()
for group in groups_of(zip(batches(0), batches(1)), K):
    x, y = (torch.cat([pair[part] for both in group for pair in both]) for part in (0, 1))
    cross_entropy(alone(x), y).backward()
    assert clip_grad_norm_(alone.parameters(), 1.0) > 0.1
    optimizer.step()
    optimizer.zero_grad()
model, optimizer = make()
ddp = torch.nn.parallel.DistributedDataParallel(model)
loader = batches(rank)
"""
SHARDS = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo")
hosts, gpus = 1, 2
model = torch.nn.Module()
model.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))
model.last = torch.nn.Linear(8, 2)
"""


@pytest.mark.parametrize(
    "page, begin, before, after, says",
    [
        (
            "docs/pytorch.md",
            "for group in",
            ACCUMULATES,
            "print(f'equal: {(model.weight - alone.weight).abs().max().item() < 1e-6}')",
            "equal: True",
        ),
        (
            "05_ddp_training/advanced/memory.md",
            "mesh = ",
            SHARDS,
            "print([tuple(p.to_local().shape) for p in (model.layers[0].weight, model.last.weight)])",
            r"\[\(4, 8\), \(1, 8\)\]",
        ),
    ],
)
def test_the_lines_of_a_page_do_what_it_says(
    page: str, begin: str, before: str, after: str, says: str, tmp_path: pathlib.Path
) -> None:
    code = code_on(page, begin).replace('"cuda"', '"cpu"')
    (tmp_path / "script.py").write_text(f"{before}\n{code}\n{after}")
    assert re.search(says, theirs(f"{torchrun(python_with(RECENT))} script.py", tmp_path).out)


START = """
import torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
rank = dist.get_rank()
model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)])
def steps(ddp):
    ddp._set_ddp_runtime_logging_sample_rate(1)
    for step in range(3):
        ddp(torch.ones(2, 512)).sum().backward()
    data = ddp._get_ddp_logging_data()
    print(f"buckets {data['bucket_sizes']} then {data['rebuilt_bucket_sizes']}")
"""


@pytest.mark.parametrize(
    "script, environment, says",
    [
        # The first step has one bucket; then the first bucket holds 1 MiB, unless it is capped, too.
        ("steps(nn.parallel.DistributedDataParallel(model))", {}, "buckets 4202496 then 1050624, 3151872"),
        (
            "steps(nn.parallel.DistributedDataParallel(model, bucket_cap_mb=3))",
            {},
            "buckets 4202496 then 3151872, 1050624",
        ),
        (
            "dist.all_reduce(torch.ones(4 + rank))",
            {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"},
            "mismatch between collectives on ranks.*TensorShape=\\[4\\].*TensorShape=\\[5\\]",
        ),
        (
            "model.unused = nn.Linear(2, 2); model.forward = lambda x: model[0](x)\n"
            "steps(nn.parallel.DistributedDataParallel(model))",
            {},
            "Parameter indices which did not receive grad",
        ),
        ("print(f'{dist.default_pg_timeout} {dist.constants.default_pg_nccl_timeout}')", {}, "0:30:00 0:10:00"),
        (
            "from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook\n"
            "ddp = nn.parallel.DistributedDataParallel(model)\n"
            "ddp.register_comm_hook(None, bf16_compress_hook); steps(ddp)",
            {},
            "buckets 4202496 then",
        ),
        # Gradients stay apart only if forward is inside no_sync(), too.
        (
            "ddp = nn.parallel.DistributedDataParallel(model)\n"
            "def apart():\n"
            "    total = model[0].weight.grad.clone()\n"
            "    dist.all_reduce(total)\n"
            "    return not torch.equal(total / 2, model[0].weight.grad)\n"
            "inputs = torch.ones(2, 512) * (rank + 1)\n"
            "with ddp.no_sync(): ddp(inputs).sum().backward()\n"
            "inside = apart()\n"
            "ddp.zero_grad()\n"
            "outputs = ddp(inputs)\n"
            "with ddp.no_sync(): outputs.sum().backward()\n"
            "print(f'apart: {inside} {apart()}')",
            {},
            "apart: True False",
        ),
        # Compiling what DDP wraps cuts the graph where buckets end; compiling the model does not.
        # (A module of PyTorch's own, on the outside, would not be compiled.)
        (
            "class Net(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.layers = model\n"
            "    def forward(self, inputs):\n"
            "        return self.layers(inputs)\n"
            "def graphs(module):\n"
            "    seen = []\n"
            "    torch._dynamo.reset()\n"
            "    compiled = torch.compile(module, backend=lambda graph, _: seen.append(graph) or graph)\n"
            "    compiled(torch.ones(2, 512)).sum().backward()\n"
            "    return len(seen)\n"
            "ddp = nn.parallel.DistributedDataParallel(Net(), bucket_cap_mb=1)\n"
            "print(f'graphs: {graphs(Net())} {graphs(ddp)}')",
            {},
            "graphs: 1 4",
        ),
        # Both ranks send a single number first, and wait for each other.
        (
            "from datetime import timedelta\n"
            "both = dist.new_group(timeout=timedelta(seconds=3))\n"
            "try: dist.send(torch.ones(1), 1 - rank, group=both)\n"
            "except RuntimeError as error: print(error)",
            {},
            "Timed out",
        ),
        # One rank has one token, the other three; their losses are the weight times 0, 1, 2 and 3.
        (
            "model = nn.Linear(1, 1, bias=False)\n"
            "ddp = nn.parallel.DistributedDataParallel(model)\n"
            "inputs = torch.arange(rank, 1 + 3 * rank).view(-1, 1).float()\n"
            "tokens = torch.tensor(len(inputs))\n"
            "dist.all_reduce(tokens)\n"
            "(ddp(inputs).sum() * 2 / tokens).backward()\n"
            "whole = model.weight.grad.item()\n"
            "model.weight.grad = None\n"
            "ddp(inputs).mean().backward()\n"
            "print(f'means: {whole} {model.weight.grad.item()}')",
            {},
            "means: 1.5 1.0",
        ),
        # The flight recorder of a rank that did not enter the last collective.
        (
            "import pickle\n"
            "dist.all_reduce(torch.ones(1))\n"
            "if rank == 0:\n"
            "    work = dist.all_reduce(torch.ones(1), async_op=True)\n"
            "dump = pickle.loads(torch._C._distributed_c10d._dump_fr_trace())\n"
            "names = [entry['profiling_name'] for entry in dump['entries']]\n"
            "entered = names.count('gloo:all_reduce'); print(f'rank {rank} entered {entered}')",
            {"TORCH_FR_BUFFER_SIZE": "2000"},
            "(?=.*rank 0 entered 2).*rank 1 entered 1",
        ),
    ],
)
def test_pytorch_does_what_the_page_says(
    script: str, environment: dict[str, str], says: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "script.py").write_text(START + script)
    result = command(f"{torchrun(python_with(RECENT))} script.py", tmp_path, limit=120, **ON_CPU, **environment)
    assert re.search(says, result.out + result.err, re.S), result.out + result.err
