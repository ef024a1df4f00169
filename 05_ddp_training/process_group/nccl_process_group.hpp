// The backend `nccl`: collectives on a separate GPU stream, concurrent with the computation.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "05_ddp_training/process_group/process_group.hpp"

namespace dist {

class NcclProcessGroup : public ProcessGroup {
 public:
  // Called on all ranks, each with its own GPU. `comm` must outlive the group.
  NcclProcessGroup(const Communicator& comm, Device device);

  Tensor allocate(Shape shape) override;
  std::unique_ptr<Work> all_reduce(const Tensor& tensor, ReduceOp op, const Stream& producer,
                                   const std::string& name = {},
                                   std::span<double> numbers = {}) override;
  std::unique_ptr<Work> reduce_scatter(const Tensor& tensor, ReduceOp op,
                                       const Stream& producer, const std::string& name = {},
                                       std::span<double> numbers = {}) override;
  std::unique_ptr<Work> all_gather(const Tensor& tensor, const Stream& producer,
                                   const std::string& name = {}) override;
  std::unique_ptr<Work> broadcast(const Tensor& tensor, int root,
                                  const Stream& producer) override;
  const Communicator& comm() const override { return comm_; }
  using ProcessGroup::synchronize;
  void synchronize(const Event& event) override { nccl_.synchronize(event); }
  bool overlaps() const override { return true; }
  std::string description() const override;

 private:
  const Communicator& comm_;
  Stream stream_;
  NcclCommunicator nccl_;
};

}  // namespace dist
