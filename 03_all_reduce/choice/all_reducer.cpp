#include "03_all_reduce/choice/all_reducer.hpp"

#include "common/buffer.hpp"

#include <mpi.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace dist {

// Called on all ranks. Calls allocate(), which throws on all ranks of a host or on none. If any
// host fails, returns the reason on all ranks; otherwise an empty string.
template <class Allocate>
static std::string failure_on_any_host(const Communicator& comm, Allocate allocate) {
  std::string failure;
  try {
    allocate();
  } catch (const Error& error) {
    failure = error.what();
  }
  if (comm.all_agree(failure.empty())) return "";
  return failure.empty() ? "another host cannot share memory" : failure;
}

// Called on all ranks. Each host has one rank that is its first.
static int count_hosts(const Communicator& comm, const Communicator& host) {
  return static_cast<int>(std::ranges::count(comm.all_gather(host.rank()), 0));
}

AllReducer::AllReducer(const Communicator& comm, const std::optional<LinkCost>& measured)
    : comm_(comm),
      host_(comm.split_by_host()),
      costs_(step_costs(measured, count_hosts(comm, host_))),
      why_no_shared_memory_(why_no_host_memory(comm.size(), host_.size())) {
  std::shared_ptr<std::byte> staging;
  const std::string failure = failure_on_any_host(comm, [&] {
    shared_.emplace(host_);
    if (!on_one_host()) {
      staging = shared_->allocate(host_, HierarchicalAllReduce::kStagingBytes);
    }
  });
  if (!failure.empty()) {
    shared_.reset();
    why_no_shared_memory_ = failure;
  } else if (!on_one_host()) {
    hierarchical_.emplace(comm, host_, *shared_, std::move(staging));
  }
  for (std::size_t bits = 0; bits < plan_.size(); ++bits) {
    // The middle of the sizes that have this many bits.
    const double bytes = bits == 0 ? 0.0 : 0.75 * std::exp2(static_cast<double>(bits));
    plan_[bits] = auto_choice(bytes, comm.size(), costs_, shared_.has_value());
  }
  // All ranks need one plan: running different algorithms, they could wait forever.
  MPI_CHECK(MPI_Bcast(plan_.data(), sizeof plan_, MPI_BYTE, 0, comm.get()));
}

Tensor AllReducer::allocate(Shape shape) {
  if (!shared_) return {std::move(shape), Device{}};
  const std::size_t bytes = bytes_of(numel(shape), sizeof(float));
  std::shared_ptr<std::byte> memory;
  const std::string failure =
      failure_on_any_host(comm_, [&] { memory = shared_->allocate(host_, bytes); });
  if (!failure.empty()) throw Error(failure);
  return {memory, reinterpret_cast<float*>(memory.get()), std::move(shape), Device{}};
}

AllReduceAlgorithm AllReducer::chosen(AllReduceAlgorithm algorithm, std::size_t bytes) const {
  if (algorithm == AllReduceAlgorithm::automatic) {
    return plan_[static_cast<std::size_t>(std::bit_width(bytes))];
  }
  const bool one_level = algorithm == AllReduceAlgorithm::hierarchical && on_one_host();
  return one_level ? AllReduceAlgorithm::shared_memory : algorithm;
}

SharedMemoryAllReduce* AllReducer::carrier_of_halves(AllReduceAlgorithm algorithm,
                                                     std::span<const std::byte> data) {
  switch (algorithm) {
    case AllReduceAlgorithm::ring: return nullptr;
    case AllReduceAlgorithm::shared_memory:
      if (!why_no_shared_memory_.empty()) {
        throw Error("shared-memory: " + why_no_shared_memory_);
      }
      [[fallthrough]];
    case AllReduceAlgorithm::automatic:
      if (!on_one_host()) return nullptr;
      return is_registered(data.data(), data.size()) ? &*shared_ : nullptr;
    default: throw Error(to_string(algorithm) + ": its all-reduce does not have two halves");
  }
}

}  // namespace dist
