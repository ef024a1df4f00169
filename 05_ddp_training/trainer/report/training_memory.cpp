#include "05_ddp_training/trainer/report/training_memory.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace dist {
namespace {

double mib(std::size_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

}  // namespace

TrainingMemory count_memory(const Mlp& model, const Optimizer& optimizer, const Shard* shard) {
  const ShardLevel level = shard != nullptr ? shard->level() : ShardLevel::none;
  TrainingMemory memory;
  const auto add = [&](std::span<const Parameter> held, bool values, bool gradients) {
    for (const Parameter& parameter : held) {
      if (values) memory.parameters += parameter.value.size_bytes();
      if (gradients) memory.gradients += parameter.grad.size_bytes();
    }
  };
  add(model.parameters(), level < ShardLevel::parameters, level < ShardLevel::gradients);
  if (shard != nullptr) {
    add(shard->parts(), level == ShardLevel::parameters, level >= ShardLevel::gradients);
    memory.buckets = shard->slot_bytes();
  }
  for (const Optimizer::State& state : optimizer.state()) {
    memory.optimizer_state += state.value.size_bytes();
  }
  memory.activations = model.activation_bytes();
  memory.copies = model.copy_bytes();
  return memory;
}

std::string describe(const TrainingMemory& memory, const std::string& device) {
  std::string tensors = fmt::format(
      "parameters {:.1f}, gradients {:.1f}, optimizer state {:.1f}, activations {:.1f}",
      mib(memory.parameters), mib(memory.gradients), mib(memory.optimizer_state),
      mib(memory.activations));
  if (memory.buckets > 0) {
    tensors += fmt::format(", whole buckets {:.1f}", mib(memory.buckets));
  }
  if (memory.copies > 0) tensors += fmt::format(", bf16 copies {:.1f}", mib(memory.copies));
  if (device != "cpu" || memory.peak < memory.counted()) {
    return fmt::format("memory: {:.1f} MiB per rank on {}: {}", mib(memory.counted()), device,
                       tensors);
  }
  return fmt::format(
      "memory: {:.1f} MiB per rank: {}, program, MPI and data {:.1f} ({:.1f} before the model)",
      mib(memory.peak), tensors, mib(memory.peak - memory.counted()), mib(memory.before));
}

Json json_of(const TrainingMemory& memory) {
  return {{"parameters_bytes", memory.parameters},
          {"gradients_bytes", memory.gradients},
          {"optimizer_bytes", memory.optimizer_state},
          {"activations_bytes", memory.activations},
          {"buckets_bytes", memory.buckets},
          {"copies_bytes", memory.copies},
          {"peak_bytes", memory.peak},
          {"before_model_bytes", memory.before}};
}

}  // namespace dist
