#include "05_ddp_training/process_group/host_process_group.hpp"

#include "02_broadcast/broadcast.hpp"
#include "common/host_copy.hpp"

#include <utility>

namespace dist {
namespace {

class CompletedWork : public Work {
 public:
  bool is_completed() override { return true; }
  void wait(const Stream&) override {}
};

}  // namespace

HostProcessGroup::HostProcessGroup(Backend backend, const Communicator& comm, Device device,
                                   AllReduceAlgorithm algorithm)
    : backend_(backend),
      comm_(comm),
      device_(device),
      algorithm_(algorithm) {
  if (backend == Backend::ours) reducer_.emplace(comm);
}

Tensor HostProcessGroup::allocate(Shape shape) {
  // Only host memory can be shared between processes; a GPU's tensors are staged anyway.
  if (reducer_ && device_.is_cpu()) return reducer_->allocate(std::move(shape));
  return {std::move(shape), device_};
}

std::unique_ptr<Work> HostProcessGroup::all_reduce(const Tensor& tensor, ReduceOp op,
                                                   const Stream& producer) {
  on_host(producer, tensor, [&](std::span<float> data) {
    if (reducer_) {
      reducer_->all_reduce(data, op, algorithm_);
    } else {
      all_reduce_mpi(comm_, data, op);
    }
  });
  return std::make_unique<CompletedWork>();
}

std::unique_ptr<Work> HostProcessGroup::broadcast(const Tensor& tensor, int root,
                                                  const Stream& producer) {
  const BroadcastAlgorithm algorithm =
      backend_ == Backend::mpi ? BroadcastAlgorithm::mpi : BroadcastAlgorithm::tree;
  on_host(producer, tensor,
          [&](std::span<float> data) { dist::broadcast(comm_, data, root, algorithm); });
  return std::make_unique<CompletedWork>();
}

std::string HostProcessGroup::description() const {
  const std::string name =
      backend_ == Backend::mpi ? "mpi" : "ours (" + to_string(algorithm_) + ")";
  return name + (device_.is_cpu() ? "" : ", staged through pinned host memory");
}

}  // namespace dist
