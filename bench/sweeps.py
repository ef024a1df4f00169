"""./learn bench buckets, and ./learn bench batch: how one flag of ddp_training changes a step."""
from harness import CORES, Model, Word, at_least, number, plural, positive, table

LAYERS = "784,512,512,512,512,512,512,512,10"


class Sweep(Word):
    targets = "ddp_training"

    @classmethod
    def add_flags(cls, add):
        add("--ranks", type=at_least(1, "rank"), default=max(2, CORES))
        add("--layers", default=LAYERS, help="layer widths; default %(default)s")
        add("--seconds", type=positive, default=1.0, help="approximate length of a run")
        add("extra", nargs="*", metavar="-- FLAGS", help="flags for ddp_training (-- --no-overlap)")

    def sweep(self, flag, flags_of):
        """The rows of all values, and the function that gives a value's median."""
        options = self.options

        def candidates(value):
            batch, flags = flags_of(value)
            model = Model(f"{options.layers.replace(',', '-')}:{batch}")
            steps = model.steps(options.ranks, options.seconds, 12, 500)
            return {"ours": self.mpirun(options.ranks, "ddp_training", "--algorithm", "auto",
                                        *model.job(options.ranks, steps), *flags, *options.extra)}

        results = self.turns(flag, [(value,) for value in options.values], candidates)
        self.data["rows"] = results.json(flag)
        return lambda value, field: results.median((value, "ours"), field) or 0.0

    def lead(self):
        return (f"{plural(self.options.ranks, 'rank')} on {CORES} cores, layers "
                f"{self.options.layers.replace(',', '-')}, Adam, milliseconds.")


def bucket_sizes(widths, cap_mib):
    """The bytes of each bucket by PyTorch's rule (05_ddp_training/data_parallel/bucket_plan.hpp):
    parameters are taken from last to first, and a bucket is closed once it reaches the cap."""
    buckets = [0]
    for i, o in reversed(list(zip(widths, widths[1:]))):
        for part in (4 * o, 4 * i * o):
            if buckets[-1] >= max(1, cap_mib * 2**20):
                buckets.append(0)
            buckets[-1] += part
    return buckets


class Buckets(Sweep):
    """--bucket-cap-mb of ddp_training: how long the messages take, and how much of it is exposed."""

    title = "The size of a bucket"
    quick = "--rounds 1 --values 0 1 25"

    @classmethod
    def add_flags(cls, add):
        add("--values", type=float, nargs="+", default=[0.0, 0.25, 1.0, 2.0, 4.0, 25.0],
            help="caps in MiB; 0 sends each parameter separately")
        add("--batch-size", type=at_least(1, "sample"), default=64, help="samples per rank")
        super().add_flags(add)

    def tables(self):
        part = self.sweep("bucket cap", lambda cap: (
            self.options.batch_size, ["--bucket-cap-mb", cap, "--first-bucket-mb", cap]))
        rows = []
        for cap in self.options.values:
            plan = bucket_sizes(list(map(int, self.options.layers.split(","))), cap)
            rows.append([f"{cap:g}", len(plan), number(max(plan) / 2**20)]
                        + [number(part(cap, field)) for field in
                           ("step_ms", "compute_ms", "comm_ms", "exposed_comm_ms", "optimizer_ms")]
                        + [f"{100 * part(cap, 'hidden'):.0f} %"])
        best = min(self.options.values, key=lambda cap: part(cap, "step_ms"))
        return [self.lead(), table(
            ["cap, MiB", "buckets", "largest, MiB", "step", "compute", "communication", "exposed",
             "optimizer", "hidden"], rows), "",
            f"The step is shortest at {best:g} MiB. Small buckets pay the latency of many messages; "
            "with one large bucket, the first message waits for the last gradient. If every core "
            "computes, no communication is hidden at any size."]


class Batch(Sweep):
    """--batch-size of ddp_training: samples per second, and the share of a step spent computing."""

    title = "The size of a batch"
    quick = "--rounds 1 --values 16 256"

    @classmethod
    def add_flags(cls, add):
        add("--values", type=at_least(1, "sample"), nargs="+", default=[4, 16, 64, 256, 1024],
            help="batch sizes per rank")
        super().add_flags(add)

    def tables(self):
        part = self.sweep("batch size", lambda size: (size, []))
        rows = []
        for size in self.options.values:
            share = part(size, "compute_ms") / (part(size, "step_ms") or 1.0)
            rows.append([size, size * self.options.ranks, f"{part(size, 'samples_per_second'):.0f}"]
                        + [number(part(size, field)) for field in
                           ("step_ms", "compute_ms", "exposed_comm_ms", "optimizer_ms")]
                        + [f"{100 * share:.0f} %"])
        return [self.lead(), table(
            ["batch per rank", "global batch", "samples/s", "step", "compute", "exposed",
             "optimizer", "share of compute"], rows), "",
            "Messages and the optimizer cost the same for any batch, so a larger batch spreads their "
            "cost over more samples, until nearly all the time is compute."]
