"""./learn bench buckets, and ./learn bench batch: how one flag of ddp_training changes a step."""
from harness import CORES, Model, Word, at_least, number, plural, table

TIMES = {"step, ms": "step_ms", "compute": "compute_ms", "communication": "comm_ms",
         "exposed": "exposed_comm_ms", "optimizer": "optimizer_ms"}


class Sweep(Word):
    targets = "ddp_training"

    @classmethod
    def add_flags(cls, add):
        add("--values", type=cls.kind, nargs="+", default=cls.values, help=cls.column)
        add("--ranks", type=at_least(1, "rank"), default=max(2, CORES))
        add("--layers", default="784-512-512-512-512-512-512-512-10", help="layer widths")
        add("--seconds", type=float, default=1.0, help="approximate length of a run")

    def candidates(self, value):
        options = self.options
        batch, *flags = self.flags_of(value)
        model = Model(f"{options.layers}:{batch}")
        job = model.job(options.ranks, model.steps(options.ranks, options.seconds, 12, 500))
        return {"ours": self.mpirun(options.ranks, "ddp_training", "--algorithm", "auto", *job,
                                    *flags)}

    def tables(self):
        options = self.options
        runs = self.turns(self.title, [(value,) for value in options.values], self.candidates)
        rows = []
        for value in options.values:
            times = [number(runs.median((value, "ours"), field)) for field in TIMES.values()]
            speed = runs.median((value, "ours"), "samples_per_second")
            rows.append([f"{value:g}", *times, f"{speed:.0f}"])
        return [f"{plural(options.ranks, 'rank')} on {CORES} cores, layers {options.layers}, Adam.",
                table([self.column, *TIMES, "samples/s"], rows), "", self.lesson]


class Buckets(Sweep):
    """--bucket-cap-mb of ddp_training: how long the messages take, and how much is exposed."""

    title = "The size of a bucket"
    quick = "--rounds 1 --values 0 1 25"
    column, kind, values = "cap in MiB", float, [0.0, 0.25, 1.0, 2.0, 4.0, 25.0]
    lesson = ("With a cap of 0, each parameter is a message. Small buckets pay the latency of many "
              "messages; with one large bucket, the first message waits for the last gradient. If "
              "every core computes, no communication is hidden at any size.")

    @staticmethod
    def flags_of(cap):
        return 64, "--bucket-cap-mb", cap, "--first-bucket-mb", cap


class Batch(Sweep):
    """--batch-size of ddp_training: how a larger batch spreads the cost of its messages."""

    title = "The size of a batch"
    quick = "--rounds 1 --values 16 256"
    column, kind, values = "batch per rank", at_least(1, "sample"), [4, 16, 64, 256, 1024]
    lesson = ("Messages and the optimizer cost the same for any batch, so a larger batch spreads "
              "their cost over more samples, until nearly all the time is compute.")

    @staticmethod
    def flags_of(size):
        return [size]
