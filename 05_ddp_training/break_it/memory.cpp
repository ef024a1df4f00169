// Belief:  data parallelism saves memory, because each rank does only 1/N of the work.
// Predict: a model is trained with Adam on 1, 2 and 4 ranks. How many bytes does a rank hold?
// You see: the same number for every N, so all ranks together hold N times as much. Only the
//          activations shrink, and only if the global batch stays the same.
// Why:     each rank has the whole model, all gradients and the whole optimizer state. Only the
//          data is divided. Sharding (ZeRO, FSDP) divides the rest as well.
#include "05_ddp_training/trainer/memory.hpp"

#include "05_ddp_training/small_training/small_training.hpp"

namespace dist {

bool break_memory(const Program& program) {
  constexpr std::size_t kBatch = 56;
  const int size = program.comm.size();
  // Called on all ranks of `group`. Returns the memory that one rank holds after a step.
  const auto after_a_step = [&](const Communicator& group, std::size_t batch_size) {
    SmallTraining job(program,
                      {.layers = {784, 128, 10},
                       .optimizer = {.kind = OptimizerKind::adam},
                       .batch_size = batch_size,
                       .samples = batch_size * static_cast<std::size_t>(group.size())},
                      group);
    job.right_step();
    const auto parameters = job.model.parameters();
    return count_memory(job.model, job.optimizer, {parameters, parameters});
  };
  Table table({"ranks", "parameters", "gradients", "optimizer", "activations", "a rank",
               "all ranks", fmt::format("activations, {} in all", kBatch)});
  const TrainingMemory alone = after_a_step(Communicator::alone(), kBatch);
  bool constant = true, shrinks = true;
  for (int ranks = 1;; ranks = std::min(2 * ranks, size)) {
    const Communicator group = program.comm.split(program.comm.rank() < ranks ? 0 : 1, 0);
    if (program.comm.rank() < ranks) {
      const auto all = static_cast<std::size_t>(ranks);
      const TrainingMemory memory = after_a_step(group, kBatch);
      const std::size_t shared = after_a_step(group, kBatch / all).activations;
      constant = constant && memory.counted() == alone.counted();
      shrinks = shrinks && shared == kBatch / all * (memory.activations / kBatch);
      std::vector<std::string> row{std::to_string(ranks)};
      for (const std::size_t bytes :
           {memory.parameters, memory.gradients, memory.optimizer_state, memory.activations,
            memory.counted(), all * memory.counted(), shared}) {
        row.push_back(fmt::format("{:.1f}", static_cast<double>(bytes) / 1024));
      }
      table.add(row);
    }
    if (ranks == size) break;
  }
  say(program, "  KiB of tensors after a step of Adam, batch {} per rank:", kBatch);
  table.print(program.console);
  say(program, "a rank holds as much as one process alone: only the data is divided");
  return constant && shrinks;
}

}  // namespace dist
