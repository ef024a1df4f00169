#!/usr/bin/env python3
"""Lesson 5's main.cpp in PyTorch. These two commands train the same model on the same data:

  torchrun --nproc_per_node 2 05_ddp_training/pytorch_twin.py
  mpirun -np 2 build/bin/ddp_training --dataset synthetic --json

Their losses agree to at least five digits in the first four steps. Sooner or later, a rounding
difference moves a number through ReLU's kink, and Adam makes a whole step of it. Without torchrun
the script trains in one process, as ddp_training does on one rank. The numbers in brackets are
those of main.cpp.
"""

import argparse
import gc
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser(description="lesson 5 in PyTorch")
    parser.add_argument("--checkpoint", help="file for the trained parameters")
    flags = parser.parse_args()

    # [1] torchrun tells each process its rank through environment variables, whereas mpirun
    # uses MPI_Init (lesson 1). Without torchrun, there is a single rank.
    if "RANK" not in os.environ:
        os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    # [3] NCCL sends from GPU to GPU, so each rank needs its own GPU. On CPUs, use Gloo.
    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    # Create the model first, then the data: ddp_training draws its numbers in this order too.
    torch.manual_seed(0)
    hidden = [nn.Linear(784, 512), nn.ReLU()]
    hidden += [nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()]
    model = nn.Sequential(*hidden, nn.Linear(512, 10)).to(device)
    data = TensorDataset(torch.randn(1000, 784), torch.randint(0, 10, (1000,)))

    # [4] Broadcasts rank 0's parameters (lesson 2) and puts the gradients into buckets. There is
    # no [2]: DDP compares only the parameters' shapes between ranks, not flags or data.
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(ddp.parameters(), lr=0.001)
    loss_function = nn.CrossEntropyLoss()

    # [5] This rank's share of every epoch (lesson 4). The sampler, not the loader, shuffles.
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=64, sampler=sampler)
    step = 0
    for epoch in range(5):
        sampler.set_epoch(epoch)  # without this call, all epochs have the same order
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = loss_function(ddp(inputs.to(device)), labels.to(device))
            loss.backward()  # [6] averages each bucket as soon as it is full (lesson 3)
            optimizer.step()
            # The mean loss over all ranks. Every rank must call all_reduce, not only rank 0.
            mean_loss = loss.detach()
            dist.all_reduce(mean_loss)
            mean_loss /= ranks
            if rank == 0:
                print(f'{{"step":{step},"epoch":{epoch},"loss":{mean_loss:.9g},"lr":0.001}}', flush=True)
            step += 1

    # Evaluate without the sampler, whose padding counts some samples twice, and add up counts, not
    # averages (lesson 4). Call model, not ddp, because the ranks may have different numbers of
    # samples.
    model.eval()
    inputs, labels = data[rank::ranks]
    with torch.no_grad():
        correct = (model(inputs.to(device)).argmax(dim=1) == labels.to(device)).sum()
    dist.all_reduce(correct)
    if rank == 0:
        print(f'{{"final":true,"steps":{step},"train_accuracy":{correct / len(data):.4f}}}')
        if flags.checkpoint:
            # ddp.state_dict() would name the parameters "module.0.weight" and so on, but the
            # model itself expects "0.weight". ddp.module is the model.
            torch.save(ddp.module.state_dict(), flags.checkpoint)


if __name__ == "__main__":
    main()
    gc.collect()  # ddp, or Gloo's threads may abort the process when Python ends
    dist.destroy_process_group()
