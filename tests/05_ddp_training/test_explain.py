"""--explain narrates one step, with numbers that a calculation by hand gives."""

import re

import pytest
from programs import ROOT, runs

# Lesson 5's README shows steps 4 and 5 of what --explain prints. To work the numbers out by hand: the
# hidden layer passes x on unless it is negative, and the second layer turns it into (2 x_0, x_1).
# So x = (s, 2 s) gives logits (2 s, 2 s), softmax (1/2, 1/2) and loss ln 2. The gradient of the
# loss is softmax minus one-hot, divided by the batch size of two: -1/4 at the label, 1/4 elsewhere.
EXPLAINED = """\
1. parameters: each rank makes its own, then all ranks receive rank 0's
  rank 0 made  0.weight [1 0; 0 1]  0.bias [0 0]  2.weight [2 0; 0 1]  2.bias [0 0]  hash BEFORE
  rank 1 made  0.weight [2 1; 1 2]  0.bias [1 1]  2.weight [3 1; 1 2]  2.bias [1 1]  hash OTHER
  rank 0 has   0.weight [1 0; 0 1]  0.bias [0 0]  2.weight [2 0; 0 1]  2.bias [0 0]  hash BEFORE
  rank 1 has   0.weight [1 0; 0 1]  0.bias [0 0]  2.weight [2 0; 0 1]  2.bias [0 0]  hash BEFORE
2. sampler: epoch 0's order is 0 1 3 2, and the ranks take turns
  rank 0  samples 0 3
  rank 1  samples 1 2
3. forward: logits = 2.weight ReLU(0.weight x + 0.bias) + 2.bias
  rank 0  sample 0: x [1 2], label 1, logits [2 2], dloss/dlogits [0.25 -0.25]
  rank 0  sample 3: x [-1 -2], label 0, logits [0 0], dloss/dlogits [-0.25 0.25]
  rank 0  mean loss 0.693147
  rank 1  sample 1: x [2 4], label 0, logits [4 4], dloss/dlogits [-0.25 0.25]
  rank 1  sample 2: x [3 6], label 0, logits [6 6], dloss/dlogits [-0.25 0.25]
  rank 1  mean loss 0.693147
  mean over the ranks 0.693147
"""

UPDATED = """\
6. optimizer: parameter - learning rate x averaged gradient
  0.weight [1 0; 0 1] - 0.5 x [-1 -2; 0.5 1] = [1.5 1; -0.25 0.5]
  0.bias   [0 0] - 0.5 x [-0.25 0.125] = [0.125 -0.0625]
  2.weight [2 0; 0 1] - 0.5 x [-0.5 -1; 0.5 1] = [2.25 0.5; -0.25 0.5]
  2.bias   [0 0] - 0.5 x [-0.25 0.25] = [0.125 -0.125]
  rank 0 has   hash AFTER
  rank 1 has   hash AFTER
7. the same step taken by one process, with all samples in one batch
  samples 0 1 3 2, mean loss 0.693147, hash AFTER
  gradients   0.weight [-1 -2; 0.5 1]  0.bias [-0.25 0.125]  2.weight [-0.5 -1; 0.5 1]  \
2.bias [-0.25 0.25]
  parameters  0.weight [1.5 1; -0.25 0.5]  0.bias [0.125 -0.0625]  2.weight [2.25 0.5; -0.25 0.5]  \
2.bias [0.125 -0.125]
"""


def explained(flags: str) -> str:
    """What --explain prints below the line that names the device and the backend."""
    return runs(2, f"ddp_training --explain {flags}").out.split("\n", 1)[1]


def shown_in_the_readme() -> tuple[str, str]:
    """The block of lesson 5's README that shows --explain: steps 4 and 5, and the last line."""
    readme = (ROOT / "05_ddp_training/README.md").read_text()
    return re.findall(r"\n\.\.\.\n(4\. backward.*?)\.\.\.\n(verified.*?)```", readme, re.S)[0]


@pytest.mark.parametrize(
    "flags", ["", "--device cpu", "--overlap", "--no-overlap", "--backend mpi", "--algorithm ring", "--algorithm naive"]
)
def test_the_numbers_of_explain_match_a_calculation_by_hand(flags: str) -> None:
    out = explained(flags)
    before, other = re.findall("made .* hash ([0-9a-f]{16})$", out, re.M)
    assert before != other
    after = re.findall("has   hash ([0-9a-f]{16})$", out, re.M)[0]
    assert after != before
    steps, verdict = shown_in_the_readme()
    assert out == (
        EXPLAINED.replace("BEFORE", before).replace("OTHER", other) + steps + UPDATED.replace("AFTER", after) + verdict
    )


def test_explain_prints_one_row_with_json() -> None:
    (row,) = runs(2, "ddp_training --explain --json").rows
    assert row["explain"] == "one step"
