// What this file adds: results that need all ranks, computed with lesson 2's broadcast and
// lesson 3's all-reduce.
#pragma once

#include "01_send_recv/gpu/host_copy.hpp"
#include "02_broadcast/broadcast.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/checkpoint/checkpoint.hpp"
#include "05_ddp_training/deterministic/virtual_ranks.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "05_ddp_training/sharding/shard.hpp"
#include "common/slowest.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace dist {

// Called on all ranks, after rank 0 has read a checkpoint. Broadcasts the run's position and
// the optimizer's state, if all ranks have the same. (DataParallel broadcasts the parameters.)
inline void share_progress(const Communicator& comm, Position& position, Optimizer& optimizer,
                           const Stream& stream, const Shard* shard = nullptr) {
  std::array<std::uint64_t, 4> numbers{position.step, position.epoch, position.taken,
                                       optimizer.steps(stream)};
  broadcast<std::uint64_t>(comm, numbers, 0);
  position = {.step = numbers[0], .epoch = numbers[1], .taken = numbers[2]};
  optimizer.set_steps(numbers[3], stream);
  if (shard != nullptr) return;
  for (const Optimizer::State& state : optimizer.state()) {
    on_host(stream, state.value,
            [&](std::span<float> values) { broadcast<float>(comm, values, 0); });
  }
}

// Called on all ranks; rank 0 has the `file`. Broadcasts the optimizer's state tensor by
// tensor, and each rank keeps its part.
inline void share_state(const Communicator& comm, const Checkpoint* file,
                        std::span<const Parameter> parameters, const Optimizer& optimizer,
                        const Shard& shard, const Stream& stream) {
  for (std::size_t s = 0; s < optimizer.state().size(); ++s) {
    const Optimizer::State& part = optimizer.state()[s];
    const std::size_t p = s % parameters.size();
    const Shape& shape = parameters[p].value.shape();
    const Tensor whole =
        file != nullptr ? file->state(part.name, shape) : Tensor(shape, Device{});
    broadcast<float>(comm, whole.span(), 0);
    shard.keep_part(p, whole, part.value, stream);
  }
}

// Makes get(), to be called on all ranks, return the whole tensor on rank 0 where each rank has
// only a part. `tensors` are those of checkpoint_tensors.
inline void gather_parts(std::vector<TensorSource>& tensors, const Shard& shard,
                         const Stream& stream) {
  const std::size_t parameters = shard.parts().size();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool is_state = i >= parameters;
    if (!is_state && shard.level() < ShardLevel::parameters) continue;
    const std::size_t p = i % parameters;
    const Tensor mine = is_state ? tensors[i].get() : shard.parts()[p].value;
    tensors[i].get = [=, &shard, &stream] { return shard.gather(p, mine, stream); };
  }
}

// Called on all ranks; all get the same result: the largest of their values.
inline std::size_t largest_over_ranks(const Communicator& comm, std::size_t value) {
  std::array<std::uint64_t, 1> largest{value};
  all_reduce<std::uint64_t>(comm, largest, ReduceOp::max,
                            AllReduceAlgorithm::recursive_doubling);
  return largest[0];
}

// Called on all ranks, each with its computing time per step. Returns the rank that the others
// had to wait for, if there is one and the times are known. All ranks get the same answer.
inline std::optional<Slowest> slowest_over_ranks(const Communicator& comm, double busy_ms) {
  // Each rank fills in its own element and leaves zeros elsewhere, so the sum is the complete
  // list.
  std::vector<double> all(static_cast<std::size_t>(comm.size()), 0.0);
  all[static_cast<std::size_t>(comm.rank())] = busy_ms;
  all_reduce<double>(comm, all, ReduceOp::sum, AllReduceAlgorithm::recursive_doubling);
  if (!std::isfinite(all[0])) return std::nullopt;
  return slowest(all);
}

// Called on all ranks; all get the same result: the fraction of the test set that the model
// classifies correctly. The ranks test disjoint parts of the set, and the counts are added up.
// The result therefore does not depend on the number of ranks.
inline double test_accuracy(const Communicator& comm, const VirtualRanks& ranks, Mlp& model,
                            Evaluation& evaluation) {
  std::array<std::uint64_t, 1> correct{0};
  const std::size_t samples = evaluation.dataset().size();
  // No rank has more samples than rank 0.
  const std::size_t most = exact_shard(samples, ranks.count(), 0).size();
  const std::size_t batches = (most + Evaluation::kBatch - 1) / Evaluation::kBatch;
  for (const int rank : ranks.local()) {
    correct[0] +=
        evaluation.count_correct(model, exact_shard(samples, ranks.count(), rank), batches);
  }
  all_reduce<std::uint64_t>(comm, correct, ReduceOp::sum,
                            AllReduceAlgorithm::recursive_doubling);
  return static_cast<double>(correct[0]) / static_cast<double>(samples);
}

}  // namespace dist
