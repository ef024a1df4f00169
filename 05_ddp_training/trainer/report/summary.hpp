// What a run reports at its end: where the time went, what was sent, how much memory was
// needed, and the parameters, so that two runs can be compared.
#pragma once

#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/trainer/report/step_times.hpp"
#include "05_ddp_training/trainer/report/training_memory.hpp"
#include "common/console.hpp"
#include "common/slowest.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace dist {

// The ranks and the device of a run, and how its gradients travelled.
struct RunDescription {
  std::string device;
  std::string backend{};    // null in the row if empty
  std::string algorithm{};  // likewise
  std::string overlap{};    // why communication is hidden or not
  std::string shard{};      // --shard; null in the row if empty
  std::string precision{};  // --precision
  int ranks = 1;
};

struct Summary {
  RunDescription run;
  std::size_t steps = 0;
  std::size_t skipped = 0;
  std::optional<bool> replicas_identical{};  // unset without replicas
  std::optional<double> test_accuracy{};
  std::optional<std::uint64_t> bytes_sent{};  // by a rank in a step; unset if not counted
  double least_bytes = 0;                     // the minimum that a rank must send
  TimesBetween between{};
  TrainingMemory memory{};
  std::optional<Slowest> slowest{};  // the rank that the others waited for
  std::size_t graph_nodes = 0;       // StepGraph::kernels

  // Prints lines of text or, with --json, the last row. Returns false if a parameter is not
  // finite. Called on all ranks if each holds a part of the parameters (`shard`).
  bool print(const Console& console, const StepTimeline& times,
             std::span<const Parameter> parameters, const Stream& stream,
             const Shard* shard) const;
};

}  // namespace dist
