// The backends ours and mpi: collectives that the host runs, from lessons 2 and 3.
#pragma once

#include "03_all_reduce/advanced/all_reducer.hpp"
#include "05_ddp_training/process_group/process_group.hpp"

#include <optional>

namespace dist {

// Blocking: the collective is done when the call returns. Tensors on a GPU are staged through
// pinned host memory.
class HostProcessGroup : public ProcessGroup {
 public:
  // Called on all ranks. `backend` is ours or mpi; `algorithm` is for ours. `comm` must outlive
  // the group.
  HostProcessGroup(Backend backend, const Communicator& comm, Device device,
                   AllReduceAlgorithm algorithm);

  Tensor allocate(Shape shape) override;
  std::unique_ptr<Work> all_reduce(const Tensor& tensor, ReduceOp op,
                                   const Stream& producer) override;
  std::unique_ptr<Work> broadcast(const Tensor& tensor, int root,
                                  const Stream& producer) override;
  void synchronize(const Stream& stream) override { stream.synchronize(); }
  std::string description() const override;

 private:
  Backend backend_;
  const Communicator& comm_;
  Device device_;
  AllReduceAlgorithm algorithm_;
  std::optional<AllReducer> reducer_;  // ours
};

}  // namespace dist
