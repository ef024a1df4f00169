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
  std::unique_ptr<Work> start(const Collective& collective, const Stream& producer) override;
  void synchronize(const Event& event) override { nccl_.synchronize(event); }

 private:
  void queue(const Collective& collective);

  Stream stream_;
  NcclCommunicator nccl_;
};

}  // namespace dist
