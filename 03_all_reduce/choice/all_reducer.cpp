#include "03_all_reduce/choice/all_reducer.hpp"

#include "03_all_reduce/choice/host_costs.hpp"
#include "common/buffer.hpp"

#include <mpi.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace dist {
namespace {

constexpr std::array kCandidates{
    AllReduceAlgorithm::shared_memory,      AllReduceAlgorithm::hierarchical,
    AllReduceAlgorithm::recursive_doubling, AllReduceAlgorithm::rabenseifner,
    AllReduceAlgorithm::ring_pipelined,     AllReduceAlgorithm::ring};

// Called on all ranks. Calls allocate(), which throws on all ranks of a host or on none. If any
// host fails, returns the reason on all ranks; otherwise an empty string.
template <class Allocate>
std::string failure_on_any_host(const Communicator& comm, Allocate allocate) {
  std::string failure;
  try {
    allocate();
  } catch (const Error& error) {
    failure = error.what();
  }
  if (comm.all_agree(failure.empty())) return "";
  return failure.empty() ? "another host cannot share memory" : failure;
}

}  // namespace

AllReducePlan::AllReducePlan(int ranks, const StepCosts& costs) {
  for (const bool registered : {false, true}) {
    for (std::size_t power = 0; power < table_[0].size(); ++power) {
      // The middle of the sizes whose bit_width is `power`.
      const double bytes = power == 0 ? 0.0 : 1.5 * std::exp2(static_cast<double>(power) - 1);
      double best = std::numeric_limits<double>::infinity();
      for (const AllReduceAlgorithm algorithm : kCandidates) {
        const auto seconds =
            predict_all_reduce(algorithm, std::min(bytes, 1e15), ranks, costs, registered);
        if (!seconds || *seconds >= best) continue;
        best = algorithm == AllReduceAlgorithm::shared_memory ? *seconds / 2 : *seconds;
        table_[registered ? 1 : 0][power] = static_cast<int>(algorithm);
      }
    }
  }
}

AllReduceAlgorithm AllReducePlan::choose(std::size_t bytes, bool registered) const {
  return static_cast<AllReduceAlgorithm>(
      table_[registered ? 1 : 0][static_cast<std::size_t>(std::bit_width(bytes))]);
}

AllReducer::AllReducer(const Communicator& comm, const std::optional<LinkCost>& measured)
    : comm_(comm),
      host_(ranks_on_this_host(comm)),
      costs_(step_costs(measured, count_hosts(comm))),
      why_no_shared_memory_(dist::why_no_host_memory(comm)) {
  std::shared_ptr<std::byte> staging;
  const std::string failure = failure_on_any_host(comm, [&] {
    shared_.emplace(host_);
    if (!on_one_host()) {
      staging = shared_->allocate(host_, HierarchicalAllReduce::kStagingBytes);
    }
  });
  if (!failure.empty()) {
    shared_.reset();
    costs_.move = nullptr;
    why_no_shared_memory_ = failure;
  } else if (!on_one_host()) {
    hierarchical_.emplace(comm, host_, *shared_, std::move(staging));
  }
  // All ranks need one plan: ranks that run different algorithms could wait for each other
  // forever.
  plan_.emplace(comm.size(), costs_);
  AllReducePlan::Table& table = plan_->table();
  MPI_CHECK(MPI_Bcast(table.data(), sizeof table, MPI_BYTE, 0, comm.get()));
}

void AllReducer::measure_costs(std::size_t most_bytes) {
  measure_host_costs(comm_, shared_ ? &*shared_ : nullptr, most_bytes, costs_);
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

AllReduceAlgorithm AllReducer::chosen(AllReduceAlgorithm algorithm, std::size_t bytes,
                                      bool registered) const {
  if (algorithm == AllReduceAlgorithm::automatic) return plan_->choose(bytes, registered);
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

bool AllReducer::is_registered(const void* data, std::size_t bytes) {
  return shared_ && shared_->is_registered(data, bytes);
}

}  // namespace dist
