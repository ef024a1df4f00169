// What this file adds: what a rank sends in a step, counted in the run's first one, and the
// least that it must send whatever the all-reduce. Builds on: common/watch, which sees the
// real messages.
#pragma once

#include "05_ddp_training/model/mlp.hpp"
#include "common/watch.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace dist {

class StepTraffic {
 public:
  // Called on all ranks: runs `average`, a step's all-reduces, and counts their messages the
  // first time.
  void during(const Communicator& comm, const std::function<void()>& average) {
    if (traffic_) return average();
    traffic_ = count_traffic(comm, average);
  }

  // The most that any rank sent. Nothing where no message of ours was seen: numbers that went
  // through shared memory, by MPI's own collectives or by NCCL.
  std::optional<std::uint64_t> bytes_per_rank() const {
    if (!traffic_ || traffic_->messages_per_rank == 0) return std::nullopt;
    return traffic_->bytes_per_rank;
  }

 private:
  std::optional<Traffic> traffic_;
};

// What each of `ranks` ranks must send at least, on average: 2 (N - 1) / N of the gradients'
// bytes (Patarasuk and Yuan, 2009).
inline double least_bytes_per_rank(std::span<const Parameter> parameters, int ranks) {
  double bytes = 0;
  for (const Parameter& parameter : parameters) {
    bytes += static_cast<double>(parameter.value.size_bytes());
  }
  return 2.0 * (ranks - 1) / ranks * bytes;
}

}  // namespace dist
