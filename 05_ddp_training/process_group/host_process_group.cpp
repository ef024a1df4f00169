#include "05_ddp_training/process_group/host_process_group.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "02_broadcast/broadcast.hpp"
#include "common/watch.hpp"

#include <chrono>
#include <utility>

namespace dist {
namespace {

class CompletedWork : public Work {
 public:
  explicit CompletedWork(double milliseconds) : milliseconds_(milliseconds) {}
  bool is_completed() override { return true; }
  void wait(const Stream&) override {}
  void synchronize() override {}
  double elapsed_ms() override { return milliseconds_; }

 private:
  double milliseconds_;
};

}  // namespace

HostProcessGroup::HostProcessGroup(Backend backend, const Communicator& comm, Device device,
                                   AllReduceAlgorithm algorithm, bool overlap)
    : backend_(backend),
      comm_(comm),
      messages_(comm.duplicate(overlap ? WaitPolicy::patient : WaitPolicy::spin)),
      device_(device),
      algorithm_(algorithm),
      stream_(device) {
  if (backend == Backend::ours) reducer_.emplace(messages_);
  if (overlap) thread_.emplace(device);
}

Tensor HostProcessGroup::allocate(Shape shape) {
  // Only host memory is shared between processes here; tensors on a GPU are staged anyway. A
  // single rank has nobody to share with, and ordinary memory can use larger pages.
  if (reducer_ && device_.is_cpu() && comm_.size() > 1)
    return reducer_->allocate(std::move(shape));
  return {std::move(shape), device_};
}

std::unique_ptr<Work> HostProcessGroup::run(const Tensor& tensor, const Stream& producer,
                                            std::function<void(std::span<float>)> operate) {
  return run(
      [this, tensor, operate = std::move(operate)] { on_host(stream_, tensor, operate); },
      producer);
}

std::unique_ptr<Work> HostProcessGroup::run(std::function<void()> job, const Stream& producer) {
  // The copy to the host starts once the tensor has been computed; this call does not wait.
  stream_.wait(producer.record_event());
  if (thread_) return thread_->submit(std::move(job));
  const auto begin = std::chrono::steady_clock::now();
  job();
  return std::make_unique<CompletedWork>(
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
          .count());
}

std::unique_ptr<Work> HostProcessGroup::all_reduce(const Tensor& tensor, ReduceOp op,
                                                   const Stream& producer,
                                                   const std::string& name) {
  return run(tensor, producer, [this, op, name](std::span<float> data) {
    const CallScope scope("all_reduce", name);
    if (reducer_) {
      reducer_->all_reduce(data, op, algorithm_);
    } else {
      all_reduce_mpi(messages_, data, op);
    }
  });
}

std::unique_ptr<Work> HostProcessGroup::broadcast(const Tensor& tensor, int root,
                                                  const Stream& producer) {
  const BroadcastAlgorithm algorithm =
      backend_ == Backend::mpi ? BroadcastAlgorithm::mpi : BroadcastAlgorithm::tree;
  return run(tensor, producer, [this, root, algorithm](std::span<float> data) {
    dist::broadcast(messages_, data, root, algorithm);
  });
}

std::unique_ptr<Work> HostProcessGroup::mean(std::span<double> numbers,
                                             std::span<double> result, const Stream& producer) {
  return run(
      [this, numbers, result] {
        const CallScope scope("mean of the loss");
        copy_bytes(stream_, result.data(), numbers.data(), numbers.size_bytes());
        stream_.synchronize();
        // With so few numbers, only latency matters.
        dist::all_reduce<double>(messages_, result, ReduceOp::avg,
                                 AllReduceAlgorithm::recursive_doubling);
      },
      producer);
}

std::string HostProcessGroup::description() const {
  const std::string name =
      backend_ == Backend::mpi ? "mpi" : "ours (" + to_string(algorithm_) + ")";
  return name + (device_.is_cpu() ? "" : ", staged through pinned host memory");
}

}  // namespace dist
