"""./learn bench gpu."""
import subprocess
import sys

from harness import PYTORCH_DDP, Model, Word, at_least, first_line, last_row, number, say, table

MODELS = ["64-128-10:32", "784-512-512-512-10:64", "784-2048-2048-10:128", "784-4096-4096-10:256"]
MODES = {"PyTorch": [], "PyTorch compiled": ["--compile"], "PyTorch graph": ["--graph"]}


def row_if_possible(command):
    """Not every PyTorch can compile or capture DDP's step."""
    try:
        return last_row(command)
    except SystemExit as problem:
        if str(PYTORCH_DDP) not in map(str, command):
            raise
        say(f"left out: {problem}")
        return {}


class Gpu(Word):
    """Our training step on GPUs, with and without its CUDA graph, beside PyTorch DDP's.

PyTorch runs eagerly, compiled, and as a captured graph. For the comparison, --python needs a PyTorch
that finds the GPU."""

    title = "The GPU step, measured"
    targets = "ddp_training"
    quick = "--rounds 1 --models 784-512-512-512-10:64"
    rounds = 5
    needs = "torch.cuda.is_available()"

    @classmethod
    def add_flags(cls, add):
        add("--ranks", type=at_least(1, "rank"), nargs="+", default=[1], help="one GPU for each")
        add("--models", type=Model, nargs="+", metavar="WIDTHS:BATCH", default=list(map(Model, MODELS)),
            help="widths and batch per rank; default " + " ".join(MODELS))
        add("--steps", type=at_least(1, "step"), default=2000, help="steps per run")

    def candidates(self, model, ranks):
        # The GPU is idle for a moment at the end of an epoch, so an epoch has 64 batches.
        job = model.job(ranks, self.options.steps, "cuda", batches=64)
        ours = self.mpirun(ranks, "ddp_training", *job)
        commands = {"ours": ours, "ours, no graph": [*ours, "--no-graph"]}
        for mode, flags in MODES.items() if self.python else ():
            commands[mode] = self.mpirun(ranks, PYTORCH_DDP, *job, *flags)
        return commands

    def tables(self):
        trial = self.mpirun(1, "ddp_training", "--device", "cuda", "--max-steps", 1)
        done = subprocess.run(list(map(str, trial)), capture_output=True, text=True)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines() or ["the trainer failed"]
            print(f"skipped: {said[0]}")
            sys.exit()
        gpu = "emulated, so all times are meaningless" if " emulated GPU" in done.stdout else first_line(
            "nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
        runs = self.turns("step", [(model, ranks) for ranks in self.options.ranks
                                   for model in self.options.models], self.candidates, row_if_possible)
        self.data["steps"] = runs.json("layers", "ranks", "who")
        lines = [f"GPU: {gpu}. Adam, float32. A step's time is that from its start on the GPU to the start "
                 "of the next. Ours includes the copy of the batch from the host and the mean loss over "
                 "the ranks; PyTorch's batches are in GPU memory."]
        for ranks in self.options.ranks:
            rows = []
            for model in self.options.models:
                key = lambda who: (model, ranks, who)
                times = [runs.median(key(who)) for who in ("ours", "ours, no graph", *MODES)]
                rows.append([model.name, model.batch]
                            + [number(1e3 * time) if time else "-" for time in times]
                            + [runs.ratio(key(mode), key("ours")) for mode in MODES]
                            + [f"{runs.median(key('ours'), field):.0f}" for field in
                               ("graph_nodes", "host_waits_per_step", "allocations_per_step")])
            lines += [f"## One step, ranks: {ranks}, microseconds", "",
                      table(["layers", "batch", "ours", "ours, no graph", *MODES,
                             *(f"{mode} / ours" for mode in MODES), "nodes", "waits", "allocations"],
                            rows), ""]
        return lines + ["Nodes are those of our graph; waits and allocations are those of the host in the "
                        "median step."]
