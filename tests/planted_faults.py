#!/usr/bin/env python3
"""Sixty faults, planted one at a time, to see that the tests still bite. Goes when issue 31 ends.

planted_faults.py list                what is wrong in each
planted_faults.py check               whether every edit applies exactly once
planted_faults.py plant N             edits the file, which must have no changes
planted_faults.py undo                restores every file that a fault edits
planted_faults.py run [N...] --build DIR [--emulated DIR] --log FILE
                                      plants each, builds and runs the quick tier until a test
                                      fails; then everything else, if none failed; then the same
                                      in the emulated build, where the faults of GPUs show
"""
import argparse
import pathlib
import re
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# (what is wrong, a mistake that was really made: the subject of its mending, or None; the tests
# to try first; file, old text, new text)
FAULTS = [
    # Lessons 1 to 4, and common/
    ("a message shorter than expected is accepted",
     None, "lesson01",
     "01_send_recv/send_recv.hpp",
     "if (received != mpi_count(expected)) {",
     "if (received > mpi_count(expected)) {"),
    ("odd ranks send first, too: only MPI's buffer hides the deadlock",
     None, "lesson01",
     "01_send_recv/exchanges.hpp",
     "if (comm.rank() % 2 == 0) {",
     "if (comm.rank() % 2 >= 0) {"),
    ("two flags may name one file, and the later one replaces the earlier",
     "Mend ten defects of reliability: signals, resumes, output paths, readers", "lesson01|refus|faults",
     "common/atomic_file.cpp",
     "if (are_one_file(target, other)) throw",
     "if (are_one_file(target, other) && path.empty()) throw"),
    ("a broadcast from another root than 0 reaches the wrong seats",
     None, "lesson02",
     "02_broadcast/binomial_tree.hpp",
     "const int seat = (comm.rank() - root + size) % size;",
     "const int seat = (comm.rank() + root) % size;"),
    ("a tensor whose last segment is short loses it in the pipeline",
     None, "lesson02",
     "02_broadcast/more_algorithms/pipelined_chain.hpp",
     "begin < data.size(); begin += length) {",
     "begin + length <= data.size(); begin += length) {"),
    ("a program whose standard output is full says that it is verified",
     "Mend ten defects of reliability: signals, resumes, output paths, readers", "lesson01|faults",
     "common/console.cpp",
     "const bool all_said = !speaks_ || std::ferror(stdout) == 0;",
     "const bool all_said = speaks_ || std::ferror(stdout) == 0;"),
    ("uniform numbers have 23 bits, not PyTorch's 24",
     None, "lesson0[245]",
     "02_broadcast/random.cpp",
     "next_u32() & 0xffffffU) * 0x1p-24F",
     "next_u32() & 0x7fffffU) * 0x1p-23F"),
    ("the last block of normal numbers is not drawn again, as PyTorch does",
     None, "lesson0[25]",
     "02_broadcast/random.cpp",
     "if (n % 16 != 0) {",
     "if (n % 16 == 15) {"),
    ("the ring's second half sends what it has not received yet: wrong from 3 ranks on",
     None, "lesson03",
     "03_all_reduce/ring.hpp",
     "const ChunkRange out = chunk(comm.rank() - step);",
     "const ChunkRange out = chunk(comm.rank() + step);"),
    ("an average on more than four ranks is divided by four",
     None, "lesson03",
     "03_all_reduce/ring.hpp",
     "finish(op, window(data, chunk(comm.rank())), comm.size());",
     "finish(op, window(data, chunk(comm.rank())), comm.size() > 3 ? 4 : comm.size());"),
    ("a maximum loses a NaN that comes from the other operand",
     None, "lesson03",
     "03_all_reduce/reduce_op.hpp",
     "if (from[i] > into[i] || from[i] != from[i]) into[i] = from[i];",
     "if (from[i] > into[i]) into[i] = from[i];"),
    ("a stored link's time of 3e300 seconds overflows in what is computed from it",
     "Refuse link costs so large that what is computed from them overflows", "lesson0[13]",
     "01_send_recv/perf/link_cost_file.cpp",
     "!(seconds > 0 && seconds <= 1e6)",
     "!(seconds > 0)"),
    ("several hosts divide an average by the ranks of one host",
     None, "hosts|lesson03",
     "03_all_reduce/several_hosts/hierarchical.hpp",
     "finish(op, mine, ranks_);",
     "finish(op, mine, parts_);"),
    ("an IDX file with more bytes than its header promises is accepted",
     "Mend ten defects of reliability: signals, resumes, output paths, readers", "lesson04|faults",
     "04_distributed_sampler/datasets/idx_dataset.cpp",
     "if (bytes.size() > promised) refuse",
     "if (bytes.size() > promised + 1) refuse"),
    ("two small all-reduces in shared memory use the same slot: a fast rank overwrites a slow one's numbers",
     None, "lesson03",
     "03_all_reduce/one_host/shared_memory.hpp",
     "small_calls_++ % 2 * kSmallBytes",
     "small_calls_++ % 1 * kSmallBytes"),
    ("padding takes the last samples instead of the first",
     None, "lesson04",
     "04_distributed_sampler/distributed_sampler.cpp",
     "mine.push_back(order[place % dataset_size_]);",
     "mine.push_back(order[std::min(place, dataset_size_ - 1)]);"),
    ("set_epoch changes nothing",
     None, "lesson04",
     "04_distributed_sampler/distributed_sampler.cpp",
     "Generator generator(options_.seed + epoch_);",
     "Generator generator(options_.seed);"),
    ("a run that resumes in an epoch on other ranks skips samples",
     None, "lesson0[45]",
     "04_distributed_sampler/distributed_sampler.cpp",
     "order[(taken + rank_ + k * num_replicas_) % dataset_size_]",
     "order[(taken + 1 + rank_ + k * num_replicas_) % dataset_size_]"),
    ("the mean over no samples is 0, not NaN, and every other mean is a little too small",
     "Mend a mean of ranks without samples, a broken comment and the time that compiling takes", "lesson04",
     "04_distributed_sampler/weighted_mean.hpp",
     "return both[0] / both[1];",
     "return both[0] / (both[1] + 1e-9);"),
    ("--json=no means --json",
     "Refuse what the first tests found: switches with values, overflowing sizes, empty sums", "lesson01|common|refus",
     "common/command_line.cpp",
     "->disable_flag_override();",
     "->disable_flag_override(false);"),
    # Lesson 5
    ("Adam's second bias correction is that of the next step",
     None, "lesson05",
     "05_ddp_training/optimizer/adam.hpp",
     "std::sqrt(1.0 - std::pow(beta2, t))",
     "std::sqrt(1.0 - std::pow(beta2, t + 1))"),
    ("AdamW also adds the decay to the gradient",
     None, "lesson05",
     "05_ddp_training/optimizer/adam.hpp",
     "o.name == \"adamw\" ? 0.0F",
     "o.name == \"adamW\" ? 0.0F"),
    ("a product that cuBLASLt refuses after all is not computed at all",
     "Do without an epilogue whenever cuBLASLt refuses a product", "lesson05|gpu|features",
     "05_ddp_training/model/gemm_cuda.cpp",
     "return status == CUBLAS_STATUS_SUCCESS;",
     "return true;"),
    ("the schedule's warm-up ends a step late",
     None, "lesson05",
     "05_ddp_training/optimizer/lr_schedule.hpp",
     "static_cast<double>(step) / static_cast<double>(warmup_steps)",
     "static_cast<double>(step) / static_cast<double>(warmup_steps + 1)"),
    ("Adam's loop reads its state again for every element, so the compiler finds no vectors",
     "Keep each CPU loop in a function of its own, so that GCC 12 vectorizes Adam and SGD", "vectors",
     "05_ddp_training/optimizer/optimizer.cpp",
     "WithState<Step>{step, *state});",
     "IfOpen<Step>{step, state});"),
    ("a logit of 200 overflows exp",
     None, "lesson05",
     "05_ddp_training/model/loss.cpp",
     "largest = row[c] > largest ? row[c] : largest;",
     "largest = row[c] > 1e9F ? row[c] : largest;"),
    ("accumulation does not divide the loss by the number of batches",
     None, "lesson05",
     "05_ddp_training/model/loss.cpp",
     "static_cast<float>(rows * place_.accumulate * divisor_)",
     "static_cast<float>(rows * divisor_)"),
    ("the bias gradients of a second batch replace those of the first",
     None, "lesson05",
     "05_ddp_training/model/linear.cpp",
     "sums[begin + c] = add ? sums[begin + c] + sum[c] : sum[c];",
     "sums[begin + c] = sum[c];"),
    ("a bucket is closed before it holds its cap",
     None, "lesson05",
     "05_ddp_training/data_parallel/bucket_plan.cpp",
     "if (size < (buckets.empty() ? first_cap : cap)) continue;",
     "if (size + bytes[i] < (buckets.empty() ? first_cap : cap)) continue;"),
    ("a bucket is sent once one of its gradients is ready, before backward has computed the others",
     None, "lesson05",
     "05_ddp_training/data_parallel/reducer.cpp",
     "if (!std::ranges::all_of(bucket.parameters, is_ready)) return;",
     "if (std::ranges::none_of(bucket.parameters, is_ready)) return;"),
    ("every batch of a step communicates: no_sync is lost",
     None, "lesson05",
     "05_ddp_training/data_parallel/distributed_data_parallel.cpp",
     "if (!place.ends_step()) {  // no_sync",
     "if (place.parts > 99) {  // no_sync"),
    ("a replica that differs in the last parameter is not noticed",
     None, "lesson05|faults",
     "05_ddp_training/data_parallel/replica_check.cpp",
     "for (std::size_t p = 0; p < mine.size(); ++p) {\n    const auto row",
     "for (std::size_t p = 0; p + 1 < mine.size(); ++p) {\n    const auto row"),
    ("deterministic mode adds the processes' sums in another order than one process",
     None, "lesson05",
     "05_ddp_training/deterministic/tree_sum.hpp",
     "for (int distance = comm.size() / 2; distance > 0; distance /= 2) {",
     "for (int distance = 1; distance < comm.size(); distance *= 2) {"),
    ("ZeRO-2 keeps only the last batch's gradients when it accumulates",
     None, "lesson05|shard",
     "05_ddp_training/sharding/sharded_data_parallel.cpp",
     "if (backward_ == Accumulate::yes) {",
     "if (backward_ == Accumulate::yes && kept_ > 99) {"),
    ("resume forgets how many steps the optimizer took",
     None, "lesson05|faults",
     "05_ddp_training/trainer/setup.cpp",
     "optimizer.set_steps(numbers[3], stream());",
     "optimizer.set_steps(numbers[0] > 99999 ? numbers[3] : 0, stream());"),
    ("--resume takes a file without a checksum, which may be damaged",
     "Mend ten defects of reliability: signals, resumes, output paths, readers", "lesson05|faults",
     "05_ddp_training/checkpoint/checkpoint.cpp",
     "if (!file_.has_checksum) {",
     "if (!file_.has_checksum && number(\"step\") > 999999) {"),
    ("a gap between two tensors of a file is accepted",
     None, "lesson05|faults",
     "05_ddp_training/checkpoint/safetensors.cpp",
     "if (range.begin != next) {",
     "if (range.begin < next) {"),
    ("a data set of which one file is missing crashes later",
     "Refuse a data set of which one file is missing", "lesson05|refus|faults",
     "05_ddp_training/trainer/data.cpp",
     "check_usage(!no_images && !pair.labels.empty(),",
     "check_usage(!no_images || !pair.labels.empty(),"),
    ("the line about an epoch has the next one's number",
     "Time plain steps and replayed ones apart, and number epochs by the one that ran", "lesson05",
     "05_ddp_training/trainer/run.cpp",
     "report_.epoch(epoch_);",
     "report_.epoch(position_.epoch);"),
    ("NCCL's process group averages although the loss has been divided: gradients are N times too small",
     None, "lesson05|gpu|features",
     "05_ddp_training/trainer/setup.cpp",
     "const ReduceOp op = backend == Backend::nccl ? ReduceOp::sum : ReduceOp::avg;",
     "const ReduceOp op = ReduceOp::avg;"),
    # The watch, the launcher and mine
    ("a deadlock's report names no cycle",
     None, "watch|diagnostics|break",
     "tools/watch/hang_report.cpp",
     "    cycles();\n    collectives();\n",
     "    collectives();\n"),
    ("a launcher that deadlocks after a hang report stays for minutes",
     "End a launcher that deadlocks after a hang report; reword what readers found unclear", "watch|diagnostics|hosts",
     "tools/watch/watch_thread.cpp",
     "kLauncherEnds : kLauncherEndsAlone",
     "100 * kLauncherEnds : 100 * kLauncherEndsAlone"),
    ("a job whose mpirun was stopped is called a hang",
     "Write a trace before the last line, and blame no rank while mpirun is stopped", "watch|diagnostics|faults",
     "tools/watch/watch_thread.cpp",
     "process_state(::getppid()) == 'T'",
     "process_state(::getppid()) == 't'"),
    ("starting CUDA or NCCL longer than --timeout is called a hang",
     "Let CUDA, cuBLAS and NCCL take longer to start than --timeout", "watch|diagnostics|gpu",
     "tools/watch/watch_thread.cpp",
     "all_are_working() ? timeout_s_ : std::max(timeout_s_, kStart_s)",
     "timeout_s_"),
    ("the last line is written before the trace is complete",
     "Write a trace before the last line, and blame no rank while mpirun is stopped", "trace|watch|diagnostics",
     "common/console.cpp",
     "  if (const WatchTable* const watch = watch_table()) watch->finish_trace();\n",
     ""),
    ("./learn accepts -n 0",
     None, "learn",
     "learn",
     "[[ $ranks =~ ^[1-9][0-9]{0,4}$ ]]",
     "[[ $ranks =~ ^[0-9]{1,5}$ ]]"),
    ("a build folder of another checkout is used",
     "Notice a build folder of another checkout, build one at a time, and say what is wrong in a sentence", "learn",
     "learn",
     "elif [ ! \"$source\" -ef \"$root\" ]; then",
     "elif [ ! -e \"$source\" ]; then"),
    ("./learn check exits with 0 although an exercise is wrong",
     None, "learn",
     "tools/learn/check.sh",
     "        worst=1 ;;",
     "        ;;"),
    ("the report page divides by a number so small that the quotient is infinite",
     "Read a report's negative and tiny numbers, and a run without the time of a plain step", "report",
     "tools/report.py",
     "return x if abs(x) >= 1e-150 else 0",
     "return x"),
    ("the reader's own trainer does not use the reader's sampler in later epochs",
     None, "mine",
     "tools/mine/my_data_parallel.hpp",
     "Generator generator(options_.seed + epoch_);",
     "Generator generator(options_.seed);"),
    # Pages
    ("a quoted output of lesson 3 is not what the program prints",
     "Fix a slip in the shown outputs of lesson 3", "page|readme",
     "03_all_reduce/README.md",
     "  rank 0    2:ad     1:acd    0:abcd |",
     "  rank 0    2:ad     1:abd    0:abcd |"),
    ("a link leads nowhere",
     "Mend comments and links that the moves left behind; ask for NCCL once, while the flags are read", "page|staircase|publish",
     "README.md",
     "](02_broadcast/README.md)",
     "](02_broadcasts/README.md)"),
    ("the hang report on the page has another number than the program's",
     "Quote the hang's number as it is now", "page|readme",
     "03_all_reduce/README.md",
     "`hang: rank 2 is in MPI_Barrier #1;",
     "`hang: rank 2 is in MPI_Barrier #2;"),
    ("a command on a page has a flag that does not exist",
     None, "page|readme",
     "02_broadcast/README.md",
     "broadcast_perf --json --algorithm flat --max-bytes 1024",
     "broadcast_perf --json --algorithm flat --largest-bytes 1024"),
    ("the numbers of a quiz's answer belong to each other's commands",
     None, "quiz|page",
     "03_all_reduce/README.md",
     "counts 112352 bytes. With `-np 4` it counts 98304.",
     "counts 98304 bytes. With `-np 4` it counts 112352."),
    ("an experiment on a page has another name than the program's",
     None, "quiz|page|readme",
     "04_distributed_sampler/README.md",
     "- `rank-seed`:",
     "- `rank-seeds`:"),
    ("the picture of the tree was drawn from another run",
     None, "picture",
     "docs/pictures/runs/tree.json",
     "[3,5],[6]",
     "[3,6],[5]"),
    ("the page lists packages that are not those of ./learn",
     None, "publish|repository",
     "docs/running.md",
     "zlib1g-dev libxxhash-dev",
     "zlib1g-dev"),
    ("a fact on a page that a test holds is off: the order of the sampler's example",
     None, "page|readme|quiz",
     "04_distributed_sampler/README.md",
     "  rank 1   [1 9] [2]",
     "  rank 1   [9 1] [2]"),
    ("the cheat sheet names a flag that no program has",
     None, "page|readme|quiz",
     "docs/cheat_sheet.md",
     "`all_reduce`: `--algorithm ring`, `--op avg`",
     "`all_reduce`: `--algorithm ring`, `--operation avg`"),
]


def texts(fault):
    *_, file, old, new = fault
    path = ROOT / file
    return path, path.read_text(encoding="utf-8"), old, new


def check():
    bad = 0
    for number, fault in enumerate(FAULTS, 1):
        path, text, old, _ = texts(fault)
        if text.count(old) != 1:
            bad += 1
            print(f"{number}: '{old}' occurs {text.count(old)} times in {path.relative_to(ROOT)}")
    print(f"{len(FAULTS)} faults, {sum(fault[1] is not None for fault in FAULTS)} of them really made")
    return bad


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], check=True, text=True,
                          capture_output=True).stdout


def undo():
    git("checkout", "-q", "--", *{fault[3] for fault in FAULTS})


def plant(number):
    path, text, old, new = texts(FAULTS[number - 1])
    if git("status", "--porcelain", "--", *{fault[3] for fault in FAULTS}):
        sys.exit("a file that a fault edits has changes: commit them, or undo")
    if text.count(old) != 1:
        sys.exit(f"{number}: does not apply")
    path.write_text(text.replace(old, new), encoding="utf-8")


def first_failure(build, *flags):
    """The first test that fails, or None."""
    done = subprocess.run(["ctest", "--stop-on-failure", "--no-tests=ignore", *flags], cwd=build,
                          text=True, capture_output=True)
    failed = re.search(r"Test +#\d+: (\S+) .*\*\*\*", done.stdout)
    return failed[1] if failed else None if done.returncode == 0 else "?"


def caught_by(number, builds):
    """What catches the planted fault: the quick tier, if it can, or else the rest."""
    hint = FAULTS[number - 1][2]
    for build in builds:
        for tier, target, flag in (("quick", "quick_tests", "-L"), ("rest", "all", "-LE")):
            made = subprocess.run(["cmake", "--build", build, "--target", target],
                                  capture_output=True)
            if made.returncode != 0:
                return f"does not compile ({build.name})"
            for order in ("-R", "-E"):
                if first := first_failure(build, flag, "quick", order, hint):
                    return f"{tier}: {first}" + ("" if build == builds[0] else ", emulated")
    return "missed"


def run(numbers, builds, log):
    for build in builds:
        if f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n" not in (build / "CMakeCache.txt").read_text():
            sys.exit(f"{build}: does not build {ROOT}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # as Ctrl-C does: undo first
    lines = []
    for number in numbers:
        plant(number)
        try:
            caught = caught_by(number, builds)
        finally:
            undo()
        lines.append(f"{number:2}  {caught:40}  {FAULTS[number - 1][0]}")
        print(lines[-1], flush=True)
        with open(log, "a", encoding="utf-8") as file:
            file.write(lines[-1] + "\n")
    for kind in ("quick", "rest", "missed", "does not compile"):
        print(f"{sum(line[4:].startswith(kind) for line in lines):3}  {kind}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["list", "check", "plant", "undo", "run"])
    parser.add_argument("numbers", nargs="*", type=int)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--emulated", type=pathlib.Path)
    parser.add_argument("--log", default="planted.log")
    asked = parser.parse_args()
    if asked.what == "list":
        for number, (wrong, mended, _, file, *_) in enumerate(FAULTS, 1):
            print(f"{number:2}  {file}: {wrong}" + (f" (mended: {mended})" if mended else ""))
    elif asked.what == "check":
        return check()
    elif asked.what == "plant":
        plant(*asked.numbers)
    elif asked.what == "undo":
        undo()
    else:
        run(asked.numbers or range(1, len(FAULTS) + 1),
            [build for build in (asked.build, asked.emulated) if build], asked.log)
    return 0


if __name__ == "__main__":
    sys.exit(main())
