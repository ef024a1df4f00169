// Belief:  data parallelism saves memory, because each rank does only 1/N of the work.
// Predict: a model is trained with Adam on 1, 2 and 4 ranks. How many bytes does a rank hold?
// You see: the same number for every N, so all ranks together hold N times as much. Only the
//          activations shrink, and only if the global batch stays the same.
// Why:     each rank has the whole model, all gradients and the whole optimizer state. Only the
//          data is divided. Sharding (ZeRO, FSDP) divides the rest as well.
// In the wild: "distributed training can not help save memory", open-mmlab/mmengine#1504.
#include "05_ddp_training/break_it/small_training.hpp"
#include "05_ddp_training/trainer/measures.hpp"

namespace dist {
namespace {

// Called on all ranks of `group`. Returns the memory that one rank holds after a step of
// `batch_size` samples.
TrainingMemory after_a_step(const Program& program, const Communicator& group,
                            std::size_t batch_size) {
  SmallTraining job(program,
                    {.layers = {784, 128, 10},
                     .optimizer = {.name = "adam"},
                     .batch_size = batch_size,
                     .samples = batch_size * static_cast<std::size_t>(group.size())},
                    group);
  // Use lesson 3's all-reduce even with CUDA, because our NCCL group always contains all ranks.
  const auto carrier = make_process_group(Backend::ours, group, program.stream.device(),
                                          AllReduceAlgorithm::ring);
  DistributedDataParallel ddp(job.model, *carrier, program.stream);
  ddp.backward(job.forward(), program.stream);
  job.step();
  program.stream.synchronize();
  return count_memory(job.model, *job.optimizer);
}

}  // namespace

bool break_memory(const Program& program) {
  constexpr std::size_t kBatch = 56;
  const int size = program.comm.size();
  const auto kib = [](std::size_t bytes) {
    return fmt::format("{:.1f}", static_cast<double>(bytes) / 1024);
  };
  Table table({"ranks", "parameters", "gradients", "optimizer", "activations", "a rank",
               "all ranks", fmt::format("activations, {} in all", kBatch)});
  bool constant = true;
  bool shrinks = true;
  TrainingMemory first;
  for (int ranks = 1;; ranks = std::min(2 * ranks, size)) {
    const Communicator group = program.comm.split(program.comm.rank() < ranks ? 0 : 1, 0);
    if (program.comm.rank() < ranks) {
      const auto all = static_cast<std::size_t>(ranks);
      const TrainingMemory memory = after_a_step(program, group, kBatch);
      const std::size_t shared = after_a_step(program, group, kBatch / all).activations;
      if (ranks == 1) first = memory;
      if (first.counted() > 0) constant = constant && memory.counted() == first.counted();
      shrinks = shrinks && shared == kBatch / all * (memory.activations / kBatch);
      table.add({std::to_string(ranks), kib(memory.parameters), kib(memory.gradients),
                 kib(memory.optimizer_state), kib(memory.activations), kib(memory.counted()),
                 kib(all * memory.counted()), kib(shared)});
    }
    if (ranks == size) break;
  }
  program.console.line(
      fmt::format("  KiB of tensors after a step of Adam, batch {} per rank:", kBatch));
  table.print(program.console);
  program.console.line("a rank holds as much as one process alone: only the data is divided");
  return constant && shrinks;
}

}  // namespace dist
