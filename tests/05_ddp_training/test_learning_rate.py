"""The learning rate of each step: constant, scaled with the ranks, warmed up."""

import json
import pathlib

from training import SMALL, train


def test_each_row_contains_the_learning_rate_of_its_step(tmp_path: pathlib.Path) -> None:
    job = SMALL + " --max-steps 5 --optimizer sgd --momentum 0.9 --lr 0.125 "
    assert train(2, job).rates == 5 * [0.125]
    assert train(2, job + "--scale-lr").rates == 5 * [0.25]
    assert train(3, job + "--scale-lr --warmup-steps 2").rates == [0.125, 0.25, 0.375, 0.375, 0.375]
    warm = train(1, job + "--warmup-steps 4 --metrics steps.jsonl", tmp_path)
    assert warm.rates == [0, 0.03125, 0.0625, 0.09375, 0.125]
    metrics = (tmp_path / "steps.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in metrics] == warm.steps
    # Where the rate is 0, the loss over the whole set stays the same.
    whole = SMALL + " --samples 16 --batch-size 16 --no-shuffle --max-steps 3 --warmup-steps 2"
    first, second, third = train(1, whole + " --lr 0.1 --optimizer sgd").losses
    assert first == second > third
