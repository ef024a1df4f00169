"""./learn bench training."""
import subprocess
import sys
import time

from harness import CORES, PYTORCH_DDP, Model, Word, at_least, number, plural, positive, ratio, shown, table

MODELS = ["64-128-10:32", "784-512-512-10:64", "784-2048-2048-10:128", "784-4096-4096-10:256"]
# Our targets for two ranks, as multiples of PyTorch's speed. For one rank the target is 1.
WANTED = {"fp32": {"64-128-10": 20, "784-512-512-10": 3, "784-2048-2048-10": 1.5,
                   "784-4096-4096-10": 1.3},
          "bf16": {"784-512-512-10": 3, "784-2048-2048-10": 1.7, "784-4096-4096-10": 1.6}}
# Phase -> (our time, the parts of its floor).
PHASES = {"data": ("data_ms", ["gather_ms"]),
          "compute": ("compute_ms", ["products_ms", "outputs_ms", "loss_ms"]),
          "exposed": ("exposed_comm_ms", ["all_reduce_ms"]),
          "optimizer": ("optimizer_ms", ["adam_ms", "check_ms"])}


def seconds_to_first_step(command):
    """From the start of mpirun to the row of the first step, or else to the end."""
    begin, first = time.perf_counter(), None
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if '"step":0' in line and first is None:
                first = time.perf_counter() - begin
    if process.returncode != 0:
        sys.exit(f"error: the command failed: {shown(command)}")
    return {"seconds": first or time.perf_counter() - begin}


class Training(Word):
    """Our training step beside PyTorch DDP's and beside its floor; also guards, start and memory.

The floor is the time of the step's matrix products alone, in a library that both could use, plus that
of the optimizer. Each phase also has a floor of its own (bench/training_floor.cpp)."""

    title = "A training step, measured"
    targets = "ddp_training training_floor"
    quick = "--rounds 1 --seconds 0.5 --eager --ranks 1 2 --models " + " ".join(MODELS[:2])
    needs = "torch.distributed.is_gloo_available()"

    @classmethod
    def add_flags(cls, add):
        add("--ranks", type=at_least(1, "rank"), nargs="+", default=sorted({1, CORES, 2 * CORES}))
        add("--models", type=Model, nargs="+", metavar="WIDTHS:BATCH", default=list(map(Model, MODELS)),
            help="widths and batch per rank; default " + " ".join(MODELS))
        add("--seconds", type=positive, default=1.5, help="approximate length of a run")
        add("--eager", action="store_true", help="leave out torch.compile")
        add("--passes", type=at_least(1, "pass"), default=5, help="passes of the floor per round")
        add("--start-ranks", type=at_least(1, "rank"), default=4, help="ranks for measuring the start")

    def ours(self, ranks, *flags):
        # The fastest algorithm, not the ring with which the course trains.
        return self.mpirun(ranks, "ddp_training", "--algorithm", "auto", *flags)

    def candidates(self, model, ranks, precision):
        job = [*model.job(ranks, model.steps(ranks, self.options.seconds, 8, 200)), "--precision",
               precision]
        commands = {"ours": self.ours(ranks, *job)}
        if ranks > 1:
            commands["sharded"] = self.ours(ranks, "--shard", "optimizer", *job)
        if self.python:
            commands["PyTorch"] = self.mpirun(ranks, PYTORCH_DDP, *job)
            if ranks <= CORES and not self.options.eager:  # on more ranks, it takes minutes
                commands["compiled"] = [*commands["PyTorch"], "--compile"]
        commands["floor"] = self.mpirun(
            ranks, "training_floor", "--layers", ",".join(map(str, model.widths)), "--batch-size",
            model.batch, "--iterations", self.options.passes, "--precision", precision)
        return commands

    def has_bf16(self):
        attempt = self.ours(1, "--device", "cpu", "--precision", "bf16", "--max-steps", 1)
        done = subprocess.run(list(map(str, attempt)), capture_output=True, text=True)
        if done.returncode not in (0, 2):
            sys.exit(f"error: training in bf16 failed:\n{done.stderr[-2000:]}")
        return done.returncode == 0

    def floor(self, case, *fields):
        parts = [self.steps.median((*case, "floor"), field) for field in fields]
        return None if None in parts else sum(parts)

    def theirs(self, case):
        """PyTorch's faster mode."""
        modes = [(*case, mode) for mode in ("PyTorch", "compiled") if (*case, mode) in self.steps]
        return min(modes, key=self.steps.median, default=(*case, "PyTorch"))

    def step_table(self, ranks, precision):
        rows = []
        for model in self.options.models:
            case = (model, ranks, precision)
            ours, sharded, theirs = (*case, "ours"), (*case, "sharded"), self.theirs(case)
            floor = self.floor(case, "products_ms", "adam_ms")
            wanted = {1: 1, 2: WANTED[precision].get(model.name)}.get(ranks)
            step = self.steps.median
            rows.append([model.name, model.batch, f"{model.parameters:,}",
                         *(number(step(key)) for key in (ours, sharded, theirs)),
                         *(self.steps.ratio(theirs, key) for key in (ours, sharded)),
                         f">= {wanted}" if wanted and self.python else "-", number(floor),
                         ratio(step(ours), floor), number(self.floor(case, "gflops")),
                         number(self.floor(case, "gbs"))])
        return [f"## One step at {plural(ranks, 'rank')} on {CORES} cores, {precision}, milliseconds", "",
                table(["layers", "batch", "parameters", "ours", "sharded", "PyTorch", "PyTorch / ours",
                       "PyTorch / sharded", "target", "floor", "ours / floor", "GFLOP/s", "GB/s"],
                      rows), ""]

    def phase_table(self, ranks, precision):
        rows = []
        for model in self.options.models:
            case = (model, ranks, precision)
            pairs = [(self.steps.median((*case, "ours"), field), self.floor(case, *parts))
                     for field, parts in PHASES.values()]
            rows.append([model.name, *(f"{number(ours)} / {number(floor)} = {ratio(ours, floor)}"
                                       for ours, floor in pairs)])
        return [f"## Each phase beside its floor: {plural(ranks, 'rank')}, {precision}, milliseconds", "",
                table(["layers", *PHASES], rows), ""]

    def guard_table(self):
        # Only one step in a hundred pays for the guards, so this compares means (not medians) over
        # a multiple of 100 steps. As in every run, the first five steps are not counted.
        ranks = min(CORES, 2)

        def candidates(model):
            steps = 100 * max(2, 2 * model.steps(ranks, self.options.seconds, 8, 200) // 100) + 5
            on = self.ours(ranks, *model.job(ranks, steps))
            return {"on": on, "off": [*on, "--timeout", 0, "--check-replicas", 0]}

        models = self.options.models[:2]
        runs = self.turns("guards", [(model,) for model in models], candidates,
                          rounds=2 * self.options.rounds + 1)
        self.data["guards"] = runs.json("layers", "guards")
        rows = [[model.name, *(number(1e3 * ranks * model.batch / runs.median((model, state), field))
                               for state in ("on", "off")), runs.ratio((model, "off"), (model, "on"), field)]
                for field in ("samples_per_second",) for model in models]
        return [f"## What the guards cost on {plural(ranks, 'rank')}, mean milliseconds per step", "",
                table(["layers", "on", "off", "on / off"], rows), "",
                "Off: `--timeout 0 --check-replicas 0`. The target is <= 1.01. If the rounds differ by "
                "more than that, this machine cannot measure so small a cost.", ""]

    def start_table(self):
        ranks = self.options.start_ranks
        flags = ["--json", "--device", "cpu", "--dataset", "synthetic", "--max-steps", 2]
        commands = {"mpirun itself": ["mpirun", "-np", ranks, "true"], "ours": self.ours(ranks, *flags)}
        if self.python:
            commands["PyTorch"] = self.mpirun(ranks, PYTORCH_DDP, *flags)
        runs = self.turns("start", [()], lambda: commands, seconds_to_first_step)
        self.data["start"] = runs.json("who")
        return [f"## Start: `mpirun -np {ranks}` to the first step, seconds", "", table(
            ["who", "seconds"], [[who, f"{runs.median((who,), 'seconds'):.2f}"] for (who,) in runs]),
            "", "Ours trains the default model; the target is < 0.5. \"mpirun itself\" runs `true`.", ""]

    def memory_table(self):
        """From the rows of the steps."""
        ranks, rows = max(self.options.ranks, key=lambda n: (n <= CORES, n)), []
        mib = lambda count: count / 2**20
        for model in self.options.models:
            ours = self.steps[model, ranks, "fp32", "ours"][0]["memory"]
            theirs = self.steps.get((model, ranks, "fp32", "PyTorch"), [None])[0]
            needed = sum(ours[f"{part}_bytes"] for part in
                         ("parameters", "gradients", "optimizer", "activations"))
            added = ours["peak_bytes"] - ours["before_model_bytes"]
            rows.append([model.name, *(f"{mib(count):.1f}" for count in (
                needed, ours["before_model_bytes"], ours["peak_bytes"])), ratio(added, needed),
                f"{mib(theirs['memory']['peak_bytes']):.0f}" if theirs else "-"])
        return [f"## Memory at the peak of a rank of {ranks}, MiB", "",
                table(["layers", "needed", "ours before the model", "ours", "added / needed", "PyTorch"],
                      rows), "", "\"Needed\" counts parameters, gradients, Adam's state and activations. The "
                "code that the matrix library generates takes more memory than a small model."]

    def tables(self):
        options = self.options
        precisions = ["fp32", "bf16"] if self.has_bf16() else ["fp32"]
        cases = [(model, ranks, precision) for model in options.models for ranks in options.ranks
                 for precision in precisions]
        self.steps = self.turns("step", cases, self.candidates)
        self.data["steps"] = self.steps.json("layers", "ranks", "precision", "who")
        lines = ["Adam, one thread per rank. Our step includes everything from the start of a step to the "
                 "start of the next: the batch, the mean loss over the ranks, and a line of JSON. "
                 "\"Sharded\" is ours with `--shard optimizer`. PyTorch's step is only forward, backward and "
                 "optimizer, with a fused optimizer, gradients as views of buckets, and a static graph; in "
                 "bf16, autocast. " + ("It was not compiled." if options.eager else
                                       "On up to as many ranks as cores it also ran compiled "
                                       "(torch.compile), and the tables show the faster of the two.")]
        pairs = [(ranks, precision) for ranks in options.ranks for precision in precisions]
        for pair in pairs:
            lines += self.step_table(*pair)
        lines += ["GFLOP/s is the rate of the step's matrix products alone, in the step's order; the gradient "
                  "of the data, which no step needs, is left out. GB/s is memcpy's rate in as much memory "
                  "as Adam uses. The floor is the time of the products and of Adam's 28 bytes per parameter "
                  "at these rates. In brackets: the range of the ratios of single rounds.", ""]
        for ranks, precision in pairs:
            if ranks <= CORES:
                lines += self.phase_table(ranks, precision)
        lines += ["A cell reads: ours / the floor = the ratio. The phases add up to the step. The floors: for data, "
                  "a gather of the rows, in caches that a step has filled; for compute, the products, the "
                  "outputs at memcpy's rate and the loss's exponentials; for exposed communication, one "
                  "MPI_Allreduce of all gradients; for the optimizer, the bytes that it touches at memcpy's "
                  "rate, or the same square roots and divisions alone if that takes longer. Less than 1 means "
                  "that the overlap or the caches win. A phase of a few microseconds is mostly the clock.", ""]
        return lines + self.guard_table() + self.start_table() + self.memory_table()
