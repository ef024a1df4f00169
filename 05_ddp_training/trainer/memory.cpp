#include "05_ddp_training/trainer/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>

namespace dist {

MemoryUse memory_use(int ranks) {
  std::map<std::string, std::size_t> bytes;
  std::ifstream status("/proc/self/status");
  // Parse lines such as "VmHWM:     1940 kB", and ignore lines without a number.
  for (std::string key; status >> key;) {
    std::size_t kib = 0;
    if (status >> kib) bytes[key] = 1024 * kib;
    status.clear();
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  const std::size_t shared = bytes["RssShmem:"];
  const std::size_t resident = bytes["RssAnon:"] + bytes["RssFile:"] + shared;
  const std::size_t of_others = shared - shared / static_cast<std::size_t>(ranks);
  // The kernel updates its record of the peak only from time to time.
  return {resident - of_others, std::max(bytes["VmHWM:"], resident) - of_others};
}

void restart_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";  // proc(5): resets VmHWM
}

TrainingMemory count_memory(const Module& model, const Optimizer& optimizer,
                            const DataParallel::Kept& kept) {
  TrainingMemory memory{.activations = model.activation_bytes(),
                        .buckets = kept.slot_bytes,
                        .copies = model.copy_bytes()};
  for (const Parameter& each : kept.values) memory.parameters += each.value.size_bytes();
  for (const Parameter& each : kept.gradients) memory.gradients += each.grad.size_bytes();
  for (const auto& [name, value] : optimizer.state()) {
    memory.optimizer_state += value.size_bytes();
  }
  return memory;
}

std::string TrainingMemory::text(const std::string& device) const {
  const auto mib = [](std::size_t bytes) { return static_cast<double>(bytes) / 0x1p20; };
  std::string tensors = fmt::format(
      "parameters {:.1f}, gradients {:.1f}, optimizer state {:.1f}, activations {:.1f}",
      mib(parameters), mib(gradients), mib(optimizer_state), mib(activations));
  if (buckets > 0) tensors += fmt::format(", whole buckets {:.1f}", mib(buckets));
  if (copies > 0) tensors += fmt::format(", bf16 copies {:.1f}", mib(copies));
  if (device != "cpu" || peak < counted()) {  // a GPU's tensors are not in `peak`
    return fmt::format("memory: {:.1f} MiB per rank on {}: {}", mib(counted()), device,
                       tensors);
  }
  return fmt::format(
      "memory: {:.1f} MiB per rank: {}, program, MPI and data {:.1f} ({:.1f} before the model)",
      mib(peak), tensors, mib(peak - counted()), mib(before));
}

}  // namespace dist
