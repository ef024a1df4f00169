#include "05_ddp_training/process_group/host_process_group.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "02_broadcast/broadcast.hpp"
#include "05_ddp_training/process_group/mpi_halves.hpp"
#include "common/watch.hpp"

#include <chrono>
#include <utility>

namespace dist {
namespace {

using Clock = std::chrono::steady_clock;

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
                                            std::function<void(std::span<float>)> operate,
                                            std::span<double> numbers) {
  return run(
      [this, tensor, numbers, operate = std::move(operate)](Clock::time_point& begin) {
        on_host(stream_, tensor, [&](std::span<float> data) {
          begin = Clock::now();  // until now, backward was computing the tensor
          operate(data);
        });
        average(numbers);
      },
      producer);
}

void HostProcessGroup::average(std::span<double> numbers) {
  if (numbers.empty()) return;
  const CallScope scope("mean of the loss");
  std::span<double> data = numbers;
  if (!device_.is_cpu()) {
    data = {static_cast<double*>(stream_.staging(numbers.size_bytes())), numbers.size()};
    copy_bytes(stream_, data.data(), numbers.data(), numbers.size_bytes());
    stream_.synchronize();
  }
  // With so few numbers, only latency matters.
  dist::all_reduce<double>(messages_, data, ReduceOp::avg,
                           AllReduceAlgorithm::recursive_doubling);
  if (device_.is_cpu()) return;
  copy_bytes(stream_, numbers.data(), data.data(), numbers.size_bytes());
  stream_.synchronize();
}

std::unique_ptr<Work> HostProcessGroup::run(CommunicationThread::Job job,
                                            const Stream& producer) {
  // The copy to the host starts once the tensor has been computed; this call does not wait. The
  // job queues that wait, not this call: otherwise an earlier job's copy, which may not have
  // been queued yet, would wait for this tensor, too.
  const auto computed = std::make_shared<Event>(producer.record_event());
  const auto run_after = [this, computed, job = std::move(job)](Clock::time_point& begin) {
    stream_.wait(*computed);
    job(begin);
  };
  if (thread_) return thread_->submit(run_after);
  auto begin = Clock::now();
  run_after(begin);
  return std::make_unique<CompletedWork>(
      std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
}

std::unique_ptr<Work> HostProcessGroup::all_reduce(const Tensor& tensor, ReduceOp op,
                                                   const Stream& producer,
                                                   const std::string& name,
                                                   std::span<double> numbers) {
  const auto operate = [this, op, name](std::span<float> data) {
    if (data.empty()) return;
    const CallScope scope("all_reduce", name);
    if (reducer_) {
      reducer_->all_reduce(data, op, algorithm_);
    } else {
      all_reduce_mpi(messages_, data, op);
    }
  };
  return run(tensor, producer, operate, numbers);
}

std::unique_ptr<Work> HostProcessGroup::reduce_scatter(const Tensor& tensor, ReduceOp op,
                                                       const Stream& producer,
                                                       const std::string& name,
                                                       std::span<double> numbers) {
  const auto operate = [this, op, name](std::span<float> data) {
    const CallScope scope("reduce_scatter", name);
    if (reducer_) {
      reducer_->reduce_scatter(data, op, algorithm_);
    } else {
      reduce_scatter_mpi(messages_, data, op);
    }
  };
  return run(tensor, producer, operate, numbers);
}

std::unique_ptr<Work> HostProcessGroup::all_gather(const Tensor& tensor, const Stream& producer,
                                                   const std::string& name) {
  return run(tensor, producer, [this, name](std::span<float> data) {
    const CallScope scope("all_gather", name);
    if (reducer_) {
      reducer_->all_gather(data, algorithm_);
    } else {
      all_gather_mpi(messages_, data);
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

std::string HostProcessGroup::description() const {
  const std::string name =
      backend_ == Backend::mpi ? "mpi" : "ours (" + to_string(algorithm_) + ")";
  return name + (device_.is_cpu() ? "" : ", staged through pinned host memory");
}

}  // namespace dist
