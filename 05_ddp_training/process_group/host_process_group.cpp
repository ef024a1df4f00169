// Look at: start, which makes a job of a collective.
#include "05_ddp_training/process_group/host_process_group.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "02_broadcast/broadcast.hpp"
#include "05_ddp_training/process_group/mpi_halves.hpp"
#include "common/watch.hpp"

#include <chrono>
#include <utility>

namespace dist {

HostProcessGroup::HostProcessGroup(Backend backend, const Communicator& comm, Device device,
                                   AllReduceAlgorithm algorithm, bool overlap)
    : ProcessGroup(comm, overlap,
                   (backend == Backend::mpi ? "mpi" : "ours (" + to_string(algorithm) + ")") +
                       (device.is_cpu() ? "" : ", staged through pinned host memory")),
      messages_(comm.split(0, comm.rank())),
      device_(device),
      algorithm_(algorithm),
      stream_(device) {
  if (backend == Backend::ours) reducer_.emplace(messages_);
  if (overlap) thread_.emplace(device);
}

Tensor HostProcessGroup::allocate(Shape shape) {
  // Only host memory is shared between processes here; tensors on a GPU are staged anyway. A
  // single rank has nobody to share with, and ordinary memory can use larger pages.
  if (reducer_ && device_.is_cpu() && comm().size() > 1)
    return reducer_->allocate(std::move(shape));
  return {std::move(shape), device_};
}

std::unique_ptr<Work> HostProcessGroup::start(const Collective& collective,
                                              const Stream& producer) {
  // The copy to the host starts once the tensor has been computed; this call does not wait. The
  // job queues that wait, not this call: otherwise an earlier job's copy, which may not have
  // been queued yet, would wait for this tensor, too.
  CommunicationThread::Job job(
      [this, asked = collective, computed = producer.record_event()]() mutable {
        // The job releases the tensor when it returns, before it counts as done. Otherwise this
        // thread could be the tensor's last owner and free its GPU memory with cudaFree, which
        // waits until all streams are idle.
        const Collective mine = std::move(asked);
        stream_.wait(computed);
        return run(mine);
      });
  auto work = std::make_unique<Work>(job.get_future().share());
  if (thread_) {
    thread_->submit(std::move(job));
  } else {
    job();
    work->synchronize();  // it has run; this throws its exception, if any
  }
  return work;
}

double HostProcessGroup::run(const Collective& collective) {
  using Clock = std::chrono::steady_clock;
  auto begin = Clock::now();
  on_host(stream_, collective.tensor, [&](std::span<float> data) {
    begin = Clock::now();  // until now, backward was computing the tensor
    if (!data.empty()) run(collective, data);
  });
  if (!collective.numbers.empty()) average(collective.numbers);
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void HostProcessGroup::run(const Collective& collective, std::span<float> data) {
  switch (collective.kind) {
    case Collective::Kind::all_reduce: {
      const CallScope scope("all_reduce", collective.name);
      return reducer_ ? reducer_->all_reduce(data, collective.op, algorithm_)
                      : all_reduce_mpi(messages_, data, collective.op);
    }
    case Collective::Kind::reduce_scatter: {
      const CallScope scope("reduce_scatter", collective.name);
      return reducer_ ? reducer_->reduce_scatter(data, collective.op, algorithm_)
                      : reduce_scatter_mpi(messages_, data, collective.op);
    }
    case Collective::Kind::all_gather: {
      const CallScope scope("all_gather", collective.name);
      return reducer_ ? reducer_->all_gather(data, algorithm_)
                      : all_gather_mpi(messages_, data);
    }
    case Collective::Kind::broadcast:
      return dist::broadcast(messages_, data, collective.root,
                             reducer_ ? BroadcastAlgorithm::tree : BroadcastAlgorithm::mpi);
  }
}

void HostProcessGroup::average(std::span<double> numbers) {
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

}  // namespace dist
