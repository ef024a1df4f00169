"""./learn bench buckets, and ./learn bench batch: how one flag of ddp_training changes a step."""
from harness import CORES, Model, Word, at_least, number, plural, positive, table

LAYERS = "784-512-512-512-512-512-512-512-10"
TIMES = {"step, ms": "step_ms", "compute": "compute_ms", "communication": "comm_ms",
         "exposed": "exposed_comm_ms", "optimizer": "optimizer_ms"}


class Sweep(Word):
    targets = "ddp_training"

    @classmethod
    def add_flags(cls, add):
        add("--ranks", type=at_least(1, "rank"), default=max(2, CORES))
        add("--layers", default=LAYERS, help="layer widths, joined by - or commas")
        add("--seconds", type=positive, default=1.0, help="approximate length of a run")
        add("extra", nargs="*", metavar="-- FLAGS", help="flags for ddp_training (-- --no-overlap)")

    def tables(self):
        options = self.options

        def candidates(value):
            batch, *flags = self.flags_of(value)
            model = Model(f"{options.layers.replace(',', '-')}:{batch}")
            steps = model.steps(options.ranks, options.seconds, 12, 500)
            return {"ours": self.mpirun(options.ranks, "ddp_training", "--algorithm", "auto",
                                        *model.job(options.ranks, steps), *flags, *options.extra)}

        runs = self.turns(self.title, [(value,) for value in options.values], candidates)
        self.data["rows"] = runs.json("value", "who")
        rows = []
        for value in options.values:
            times = [number(runs.median((value, "ours"), field)) for field in TIMES.values()]
            speed = runs.median((value, "ours"), "samples_per_second")
            rows.append([f"{value:g}", self.second(value), *times, f"{speed:.0f}"])
        return [f"{plural(options.ranks, 'rank')} on {CORES} cores, layers {options.layers}, Adam.",
                table([*self.columns, *TIMES, "samples/s"], rows), "", self.lesson]


class Buckets(Sweep):
    """--bucket-cap-mb of ddp_training: how long the messages take, and how much is exposed."""

    title = "The size of a bucket"
    quick = "--rounds 1 --values 0 1 25"
    columns = ["cap, MiB", "buckets"]
    lesson = ("Small buckets pay the latency of many messages; with one large bucket, the first "
              "message waits for the last gradient. If every core computes, no communication is "
              "hidden at any size.")

    @classmethod
    def add_flags(cls, add):
        add("--values", type=float, nargs="+", default=[0.0, 0.25, 1.0, 2.0, 4.0, 25.0],
            help="caps in MiB; 0 sends each parameter separately")
        add("--batch-size", type=at_least(1, "sample"), default=64, help="samples per rank")
        super().add_flags(add)

    def flags_of(self, cap):
        return self.options.batch_size, "--bucket-cap-mb", cap, "--first-bucket-mb", cap

    def second(self, cap):
        """The number of buckets by PyTorch's rule (05_ddp_training/data_parallel/bucket_plan.hpp):
        parameters are taken from last to first, and a bucket is closed once it reaches the cap."""
        widths = list(map(int, self.options.layers.replace(",", "-").split("-")))
        buckets, filled = 1, 0
        for i, o in reversed(list(zip(widths, widths[1:]))):
            for size in (4 * o, 4 * i * o):
                if filled >= max(1, cap * 2**20):
                    buckets, filled = buckets + 1, 0
                filled += size
        return buckets


class Batch(Sweep):
    """--batch-size of ddp_training: how a larger batch spreads the cost of its messages."""

    title = "The size of a batch"
    quick = "--rounds 1 --values 16 256"
    columns = ["batch per rank", "global batch"]
    lesson = ("Messages and the optimizer cost the same for any batch, so a larger batch spreads "
              "their cost over more samples, until nearly all the time is compute.")

    @classmethod
    def add_flags(cls, add):
        add("--values", type=at_least(1, "sample"), nargs="+", default=[4, 16, 64, 256, 1024],
            help="batch sizes per rank")
        super().add_flags(add)

    def flags_of(self, size):
        return [size]

    def second(self, size):
        return size * self.options.ranks
