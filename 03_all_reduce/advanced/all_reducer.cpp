#include "03_all_reduce/advanced/all_reducer.hpp"

#include "03_all_reduce/advanced/host_costs.hpp"
#include "common/buffer.hpp"

#include <mpi.h>

#include <utility>

namespace dist {

AllReducer::AllReducer(const Communicator& comm, StepCosts costs)
    : comm_(comm),
      costs_(std::move(costs)),
      why_no_shared_memory_(dist::why_no_host_memory(comm)) {
  if (why_no_shared_memory_.empty()) {
    try {
      shared_.emplace(comm);
    } catch (const Error& error) {  // thrown on all ranks or on none
      why_no_shared_memory_ = error.what();
    }
  }
  if (!shared_) costs_.move = nullptr;
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
  const std::shared_ptr<std::byte> memory = shared_->allocate(comm_, bytes);
  return {memory, reinterpret_cast<float*>(memory.get()), std::move(shape), Device{}};
}

AllReduceAlgorithm AllReducer::chosen(AllReduceAlgorithm algorithm, std::size_t bytes,
                                      bool registered) const {
  if (algorithm != AllReduceAlgorithm::automatic) return algorithm;
  return plan_->choose(bytes, registered);
}

SharedMemoryAllReduce* AllReducer::carrier_of_halves(AllReduceAlgorithm algorithm,
                                                     std::span<const std::byte> data) {
  switch (algorithm) {
    case AllReduceAlgorithm::ring: return nullptr;
    case AllReduceAlgorithm::shared_memory:
      if (!shared_) throw Error("shared-memory: " + why_no_shared_memory_);
      [[fallthrough]];
    case AllReduceAlgorithm::automatic:
      return is_registered(data.data(), data.size()) ? &*shared_ : nullptr;
    default: throw Error(to_string(algorithm) + ": its all-reduce does not have two halves");
  }
}

bool AllReducer::is_registered(const void* data, std::size_t bytes) {
  return shared_ && shared_->is_registered(data, bytes);
}

}  // namespace dist
