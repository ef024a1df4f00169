"""Which gradients share a bucket, and when each bucket's all-reduce starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import svg

if TYPE_CHECKING:
    from draw import Programs

COMMAND = "mpirun -np 2 build/bin/ddp_training --max-steps 1 --trace step.json"
LAYER, GAP, TOP, BUCKETS = 170, 40, 92, 212


def record(programs: Programs) -> dict[str, Any]:
    """buckets[i]: the names of its parameters, in the order in which they became ready."""
    names = [
        event["args"]["tensor"].split(": ")[1].split(", ")
        for event in programs.trace(COMMAND)
        if event["pid"] == 0 and event["name"] == "all_reduce"
    ]
    return {"buckets": names}


def draw(run: dict[str, Any]) -> str:
    order = [name for bucket in run["buckets"] for name in bucket]
    layers = sorted({name.split(".")[0] for name in order}, key=int)
    left = {layer: 10 + i * (LAYER + GAP) for i, layer in enumerate(layers)}
    # A parameter's hook: the weight is on the left half of its layer, the bias on the right half.
    x = {name: left[name.split(".")[0]] + LAYER * (0.27 if name.endswith("weight") else 0.77) for name in order}
    end = left[layers[-1]] + LAYER
    parts = [
        svg.text(
            0,
            42,
            "Backward goes from the last layer to the first. A hook reports each gradient as soon as it is final;",
            "m",
        ),
        svg.text(0, 62, "when all of a bucket have been reported, its all-reduce starts, while backward goes on.", "m"),
        svg.arrow(end, TOP - 8, left[layers[0]], TOP - 8, class_="l k", stroke_width=2),
    ]
    for layer, at in left.items():
        parts.append(
            svg.rect(at, TOP, LAYER, 56, rx=4, class_="p")
            + svg.middle(at + LAYER / 2, TOP + 20, f"layer {layer}", font_weight="bold")
        )
    for name in order:
        parts.append(svg.middle(x[name], TOP + 44, name))
    for i, bucket in enumerate(run["buckets"]):
        first, last = (edge(left[name.split(".")[0]] for name in bucket) for edge in (min, max))
        for name in bucket:
            turn = order.index(name) + 1
            parts.append(
                svg.arrow(x[name], TOP + 56, x[name], BUCKETS - 2, stroke=svg.RANK_FILL[i % 4], stroke_width=2)
                + svg.text(x[name] + 6, TOP + 92, f"hook {turn}", "m")
            )
        parts.append(
            svg.box(first, BUCKETS, last + LAYER - first, 40, 4, f"bucket {i}", i)
            + svg.middle(
                (first + last + LAYER) / 2, BUCKETS + 62, f"starts after hook {order.index(bucket[-1]) + 1}", "m"
            )
        )
    told = " ".join(f"Bucket {i}: {', '.join(bucket)}." for i, bucket in enumerate(run["buckets"]))
    return svg.document(BUCKETS + 76, "Parameters, hooks and buckets in one backward pass", told, run["command"], parts)
