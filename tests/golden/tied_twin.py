"""break_it/tied_model.hpp in PyTorch. Prints tied.json: data, first parameters and gradients of two
batches, the second of which is added to the first."""
import json

import torch
from torch import nn
from torch.nn import functional

CHARACTERS, WIDTH = 11, 6


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(CHARACTERS, WIDTH)
        self.position = nn.Embedding(3, WIDTH)
        self.hidden = nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, ids):
        x = (self.embedding(ids) + self.position.weight).flatten(1)
        return functional.linear(self.hidden(x).relu(), self.embedding.weight)


torch.manual_seed(7)
model = Tied()
ids, targets = torch.randint(0, CHARACTERS, (20, 3)), torch.randint(0, CHARACTERS, (20,))


def numbers(part):
    return {name: part(each).flatten().tolist() for name, each in model.named_parameters()}


golden = {"torch_version": torch.__version__, "ids": ids.flatten().tolist(), "targets": targets.tolist(),
          "parameters": numbers(lambda each: each.detach())}
for name, rows in ("first", slice(0, 12)), ("both", slice(12, 20)):
    loss = functional.cross_entropy(model(ids[rows]), targets[rows])
    loss.backward()
    golden[name] = {"loss": loss.item(), "gradients": numbers(lambda each: each.grad)}
print(json.dumps(golden))
