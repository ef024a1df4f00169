"""What docs/pytorch.md, docs/pytorch_choices.md and other pages say of PyTorch is what PyTorch does.
$PYTHON names a Python that has it."""

import os
import pathlib
import random
import re
import socket
import statistics
import struct
import subprocess

import pytest
from programs import ROOT, command
from pytorch import ON_CPU, RECENT, TWIN, code_on, python_with, theirs, torchrun, two_ranks
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


# What the two pages say of PyTorch 2.13 or newer, as far as two ranks on a CPU can show it:
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
scaler = torch.amp.GradScaler(device, enabled=ENABLED)
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
        *(
            (
                "docs/pytorch_choices.md",
                "for group in",
                ACCUMULATES.replace("ENABLED", enabled),
                "print(f'equal: {(model.weight - alone.weight).abs().max().item() < 1e-6}')",
                "equal: True",
            )
            for enabled in ("True", "False")
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
    assert re.search(says, theirs(f"{two_ranks(python_with(RECENT))} script.py", tmp_path).out)


ONE_OR_MANY = """
import copy, re, torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
rank, ranks, device = dist.get_rank(), 2, "cpu"
torch.manual_seed(0)
model, loss_of = nn.Sequential(nn.Linear(5, 6), MIXES, nn.Dropout(0.5), nn.Linear(6, 3)), nn.CrossEntropyLoss()
x, y = torch.randn(8, 5), torch.arange(8) % 3
"""


@pytest.mark.parametrize(
    "mixes, call, whole, ddp",  # whether the two pairs are equal
    [
        ("nn.ReLU()", "ddp(", True, True),
        ("nn.BatchNorm1d(6)", "ddp(", False, True),
        ("nn.ReLU()", "ddp.module(", True, False),
    ],
    ids=["right", "BatchNorm", "ddp.module"],
)
def test_the_lines_that_compare_one_gpu_with_many(
    mixes: str, call: str, whole: bool, ddp: bool, tmp_path: pathlib.Path
) -> None:
    code = code_on("docs/pytorch.md", "torch.use_deterministic").replace("ddp(parts", f"{call}parts")
    (tmp_path / "script.py").write_text(ONE_OR_MANY.replace("MIXES", mixes) + code)
    said = theirs(f"{two_ranks(python_with('torch.nn'))} script.py", tmp_path).out
    rows = re.findall(r"(\d\.\w+): whole and parts (\de[-+]\d\d), parts and DDP (\de[-+]\d\d)", said)
    assert len({name for name, _, _ in rows}) >= 4, said
    assert (max(float(one) for _, one, _ in rows) < 1e-5) == whole, said
    assert (max(float(other) for _, _, other in rows) < 1e-5) == ddp, said


NOISE = """
import torch
torch.manual_seed(0)
true, spread, b, B = torch.tensor([0.3, -0.4]), torch.tensor([2.0, 1.0]), 4, 32
smalls, bigs = [], []
for step in range(20000):
    samples = true + spread * torch.randn(B, 2)
    smalls.append(samples[:b].mean(0).square().sum())
    bigs.append(samples.mean(0).square().sum())
small, big = torch.stack(smalls).mean(), torch.stack(bigs).mean()
noise = (small - big) / (1/b - 1/B)
true = big - noise / B
print(f"{noise:.1f} {true:.2f}")
"""


def test_two_norms_give_the_noise_and_the_true_gradient(tmp_path: pathlib.Path) -> None:
    page = (ROOT / "docs/pytorch_choices.md").read_text()
    for formula in "noise = (small - big) / (1/b - 1/B)", "true = big - noise / B":
        assert formula in re.sub(r"\s+", " ", page) and formula in NOISE
    (tmp_path / "script.py").write_text(NOISE)
    noise, true = map(float, theirs(f"{python_with('torch.nn')} script.py", tmp_path).out.split())
    assert noise == near(5.0, 0.05) and true == near(0.25, 0.1)  # 2^2 + 1^2, and 0.3^2 + 0.4^2


def test_the_latest_of_64_ranks_is_as_late_as_the_page_says() -> None:
    normal, ranks, step = statistics.NormalDist(), 64, 0.01
    places = [step * k for k in range(-600, 601)]
    latest = sum(step * x * ranks * normal.pdf(x) * normal.cdf(x) ** (ranks - 1) for x in places)  # its mean
    page = re.sub(r"\s+", " ", (ROOT / "docs/pytorch_choices.md").read_text())
    assert f"by 5 %, the latest is {5 * latest:.0f} % late ({latest:.1f} deviations)" in page


def test_two_sizes_of_batch_say_what_is_lost() -> None:
    each = (56 - 30.5) / (128 - 64)
    fixed = 56 - 128 * each
    lost = [100 - 100 * (fixed + 1024 * each) / (n * (fixed + 1024 / n * each)) for n in (16, 64)]
    page = re.sub(r"\s+", " ", (ROOT / "docs/pytorch_choices.md").read_text())
    assert f"128 samples take 56 ms and 64 take 30.5, that is {fixed:.0f} ms and {each:.1f} ms" in page
    assert f"of a batch of 1024, 16 GPUs lose {lost[0]:.0f} %, and 64 GPUs {lost[1]:.0f} %" in page


WEIGHTS = """
import torch
from torch.utils.data import DataLoader
data, weights = torch.arange(6), torch.tensor([1.0, 1, 1, 1, 1, 5])
ranks, per_rank, batch_size, seed = 3, 400, 50, 2
for epoch in range(2):
    seen = []
    for rank in range(ranks):
        LINES
        seen.append(torch.cat(list(loader)))
    often = round((torch.cat(seen) == 5).float().mean().item(), 1)
    print(epoch, [len(each) for each in seen], often, *seen[0][:20].tolist())
"""


def test_ranks_draw_one_list_with_weights(tmp_path: pathlib.Path) -> None:
    lines = code_on("04_distributed_sampler/further.md", "generator =").replace("\n", "\n        ")
    (tmp_path / "script.py").write_text(WEIGHTS.replace("LINES", lines))
    first, second = theirs(f"{python_with('torch.nn')} script.py", tmp_path).out.splitlines()
    for epoch, said in enumerate((first, second)):
        assert said.startswith(f"{epoch} [400, 400, 400] 0.5 ")
    assert first[2:] != second[2:]  # each epoch draws anew


def test_torchrun_names_the_rank_that_failed_first(tmp_path: pathlib.Path) -> None:
    (tmp_path / "script.py").write_text(
        "import os\n"
        "from torch.distributed.elastic.multiprocessing.errors import record\n"
        "@record\n"
        "def main():\n"
        "    print('threads', os.environ['OMP_NUM_THREADS'], flush=True)\n"
        "    if os.environ['RANK'] == '1': raise ValueError('no such file')\n"
        "    import time; time.sleep(60)\n"
        "main()\n"
    )
    words = torchrun(python_with(RECENT)) + " --log-dir logs --tee 3 script.py"
    result = command(f"env -u OMP_NUM_THREADS {words}", tmp_path, limit=120, **ON_CPU)
    said = result.out + result.err
    cause = said.partition("Root Cause (first observed failure)")[2]
    assert re.search(r"rank +: 1 .*\n +exitcode +: 1 ", cause) and "ValueError: no such file" in cause, said
    assert "threads 1" in said
    files = {path.name for path in (tmp_path / "logs").rglob("*") if path.is_file()}
    assert {"stdout.log", "stderr.log"} <= files


SOME_USE = """
import datetime, time, torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4))
rank = dist.get_rank()
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.always, self.sometimes = nn.Linear(3, 1, bias=False), nn.Linear(3, 1, bias=False)
    def forward(self, x, both):
        return self.always(x) + (self.sometimes(x) if both else 0)
"""


def test_a_gradient_that_some_ranks_lack_stops_them_and_the_others(tmp_path: pathlib.Path) -> None:
    (tmp_path / "script.py").write_text(
        SOME_USE
        + """
ddp = nn.parallel.DistributedDataParallel(Two())
try:
    for step in range(2):
        begin = time.monotonic()
        where = "forward"
        loss = ddp(torch.ones(1, 3), both=rank == 0).sum()
        where = "backward"
        loss.backward()
except RuntimeError as error:
    print(f"rank {rank}: step {step}, {where}, {time.monotonic() - begin:.0f} s", flush=True)
    time.sleep(8)  # the other one's wait must end by its timeout, not by this rank's end
"""
    )
    said = theirs(f"{two_ranks(python_with(RECENT))} script.py", tmp_path).out
    assert re.search(r"rank 1: step 1, forward, 0 s", said), said
    assert re.search(r"rank 0: step 0, backward, [45] s", said), said


def test_find_unused_parameters_divides_by_all_ranks(tmp_path: pathlib.Path) -> None:
    (tmp_path / "script.py").write_text(
        SOME_USE
        + """
model = Two()
ddp = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
ddp(torch.ones(1, 3), both=rank == 0).sum().backward()
print(rank, model.always.weight.grad.tolist(), model.sometimes.weight.grad.tolist())
"""
    )
    said = theirs(f"{two_ranks(python_with(RECENT))} script.py", tmp_path).out
    for rank in range(2):
        assert f"{rank} [[1.0, 1.0, 1.0]] [[0.5, 0.5, 0.5]]" in said


BUFFERS = """
import torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
rank = dist.get_rank()
model = nn.BatchNorm1d(2)
ddp = nn.parallel.DistributedDataParallel(model)
for step in range(2):
    ddp(torch.full((4, 2), 10.0 * rank) + torch.arange(4.0)[:, None])
    print(f"rank {rank} step {step}: {model.running_mean[0].item():.3f}")
"""


@pytest.mark.parametrize("flags", ["", ", forward_sync_buffers=False"], ids=["rank 0's", "its own"])
def test_rank_0s_buffers_win_before_the_next_forward(flags: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "script.py").write_text(BUFFERS.replace("(model)", f"(model{flags})"))
    said = theirs(f"{two_ranks(python_with(RECENT))} script.py", tmp_path).out
    mean = {(int(r), int(s)): float(m) for r, s, m in re.findall(r"rank (\d) step (\d): ([\d.]+)", said)}
    assert mean[0, 0] == near(0.15, 1e-3) and mean[1, 0] == near(1.15, 1e-3)
    assert mean[1, 1] == near(0.9 * mean[1 if flags else 0, 0] + 1.15, 1e-3)


EVALUATES = """
import datetime, torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4))
rank = dist.get_rank()
model = nn.BatchNorm1d(2)
ddp = nn.parallel.DistributedDataParallel(model)
ddp.eval()
try:
    for batch in range(2 + (rank == 0)):
        CALL
    print(f"rank {rank}: {batch + 1} batches", flush=True)
except RuntimeError:
    print(f"rank {rank}: waited in vain in batch {batch}", flush=True)
import time
time.sleep(6 * rank)
"""


@pytest.mark.parametrize(
    "call, says",
    [
        ("ddp(torch.ones(2, 2))", "rank 0: waited in vain in batch 2"),
        ("with torch.no_grad(): model(torch.ones(2, 2))", "rank 0: 3 batches"),
    ],
    ids=["ddp", "model"],
)
def test_an_evaluation_with_ddp_waits_for_a_batch_that_never_comes(
    call: str, says: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "script.py").write_text(EVALUATES.replace("CALL", call))
    said = theirs(f"{two_ranks(python_with(RECENT))} script.py", tmp_path).out
    assert says in said and "rank 1: 2 batches" in said


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
        # A contrastive loss: gathered with a gradient, it is one GPU's; without, a half of it on two.
        (
            "from torch.distributed._functional_collectives import all_gather_single\n"
            "def loss_of(both, gather):\n"
            "    a, b = (gather(e) for e in nn.functional.normalize(both).chunk(2))\n"
            "    return nn.functional.cross_entropy(10 * a @ b.T, torch.arange(len(a)))\n"
            "def plain(mine):\n"
            "    every = [torch.empty_like(mine) for _ in range(2)]\n"
            "    dist.all_gather(every, mine)\n"
            "    every[rank] = mine\n"
            "    return torch.cat(every)\n"
            "torch.manual_seed(0)\n"
            "inputs, model = torch.randn(2, 8, 6), nn.Linear(6, 4)\n"
            "loss_of(model(inputs.flatten(0, 1)), lambda e: e).backward()\n"
            "whole = model.weight.grad.clone()\n"
            "ddp = nn.parallel.DistributedDataParallel(model)\n"
            "mine = inputs[:, 4 * rank:4 * rank + 4].flatten(0, 1)\n"
            "def part(gather):\n"
            "    ddp.zero_grad()\n"
            "    loss_of(ddp(mine), gather).backward()\n"
            "    return (model.weight.grad / whole).median().item()\n"
            "print(f'parts: {part(plain):.3f} {part(lambda e: all_gather_single(e, 0, dist.group.WORLD)):.3f}')",
            {},
            "parts: 0.500 1.000",
        ),
        # An activation that is recomputed inside backward (reentrant) calls a hook twice.
        (
            "from torch.utils.checkpoint import checkpoint\n"
            "class Net(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.last, self.first = nn.Linear(2, 2), nn.Linear(2, 2)\n"
            "    def forward(self, x):\n"
            "        x = checkpoint(self.last, self.first(x), use_reentrant=reentrant)\n"
            "        return checkpoint(self.last, x, use_reentrant=reentrant) if twice else x\n"
            "def works(**flags):\n"
            "    ddp = nn.parallel.DistributedDataParallel(Net(), **flags)\n"
            "    try:\n"
            "        for step in range(2): ddp(torch.ones(2, 2)).sum().backward()\n"
            "    except RuntimeError as error:\n"
            "        return 'Expected to mark a variable ready only once' not in str(error)\n"
            "    return True\n"
            "reentrant, twice = True, False\n"
            "seen = [works(), works(find_unused_parameters=True)]\n"
            "twice = True\n"
            "seen += [works(), works(static_graph=True)]\n"
            "reentrant = False\n"
            "seen += [works(), works(find_unused_parameters=True)]\n"
            "print(f'works: {seen}')",
            {},
            r"works: \[True, False, False, True, True, True\]",
        ),
        # What forward does not call is not averaged; the optimizer may be older than DDP.
        (
            "class Net(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.w = nn.Parameter(torch.tensor(1.0 + rank))\n"
            "    def encode(self, x): return self.w * x\n"
            "    def forward(self, x): return self.encode(x)\n"
            "net = Net()\n"
            "sgd = torch.optim.SGD(net.parameters(), lr=1.0)\n"
            "ddp = nn.parallel.DistributedDataParallel(net)\n"
            "x = torch.tensor(1.0 + 2 * rank)\n"
            "ddp.module.encode(x).backward()\n"
            "alone, net.w.grad = net.w.grad.item(), None\n"
            "ddp(x).backward()\n"
            "sgd.step()\n"
            "print(f'rank {rank}: alone {alone}, average {net.w.grad.item()}, then {net.w.item()}')",
            {},
            "(?=.*rank 0: alone 1.0, average 2.0, then -1.0).*rank 1: alone 3.0, average 2.0, then -1.0",
        ),
        # A sum of a million numbers misses a difference in one of them, but not as whole numbers.
        (
            "p = torch.randn(1000000, generator=torch.Generator().manual_seed(0))\n"
            "q = p.clone()\n"
            "q[5] += 1e-7\n"
            "bits = lambda p: p.view(torch.int32).sum(dtype=torch.int64)\n"
            "print(f'equal: {(p.sum() == q.sum()).item()} {(bits(p) == bits(q)).item()} {torch.equal(p, q)}')",
            {},
            "equal: True False False",
        ),
        # Where a script with a profiler's schedule has its steps.
        (
            "from torch.profiler import profile, schedule\n"
            "traced = []\n"
            "with profile(schedule=schedule(wait=10, warmup=1, active=3, repeat=1),\n"
            "             on_trace_ready=lambda p: traced.extend(e.name for e in p.events())) as profiler:\n"
            "    for step in range(20):\n"
            "        dist.all_reduce(torch.ones(1))\n"
            "        profiler.step()\n"
            "print(f'traced {traced.count(\"gloo:all_reduce\")}')",
            {},
            "traced 3",
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
    result = command(f"{two_ranks(python_with(RECENT))} script.py", tmp_path, limit=120, **ON_CPU, **environment)
    assert re.search(says, result.out + result.err, re.S), result.out + result.err
