// The backends `ours` and `mpi`: collectives that run on the host, from lessons 2 and 3. Last,
// the choice of a backend.
// Look at: start, which makes a job of a collective.
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "02_broadcast/broadcast.hpp"
#include "03_all_reduce/choice/all_reducer.hpp"
#include "03_all_reduce/more_algorithms/mpi_halves.hpp"
#include "05_ddp_training/process_group/communication_thread.hpp"
#include "05_ddp_training/process_group/pretended_link.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "common/watch.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

namespace dist {
namespace {

class HostProcessGroup : public ProcessGroup {
 public:
  HostProcessGroup(Backend backend, const Communicator& comm, Device device,
                   AllReduceAlgorithm algorithm, bool overlap, double pretend_link)
      : ProcessGroup(comm, overlap,
                     (backend == Backend::mpi ? "mpi" : "ours (" + to_string(algorithm) + ")") +
                         (device.is_cpu() ? "" : ", staged through pinned host memory") +
                         (pretend_link > 0 ? ", on a pretended link" : "")),
        messages_(comm.duplicate()),
        device_(device),
        algorithm_(algorithm),
        pretend_link_(pretend_link),
        stream_(device) {
    if (backend == Backend::ours) reducer_.emplace(messages_);
    if (overlap) thread_.emplace(device);
  }

  Tensor allocate(Shape shape) override {
    // Only host memory is shared between processes here; tensors on a GPU are staged anyway. A
    // single rank has nobody to share with, and ordinary memory can use larger pages.
    const bool shared = reducer_ && device_.is_cpu() && comm().size() > 1;
    return shared ? reducer_->allocate(std::move(shape)) : Tensor(std::move(shape), device_);
  }

  std::unique_ptr<Work> start(const Collective& collective, const Stream& producer) override {
    // The job, not this call, queues the wait for the tensor: otherwise an earlier job's copy,
    // which may not have been queued yet, would wait for this tensor, too.
    const Event ready = producer.record_event();
    CommunicationThread::Job job([this, asked = collective, ready]() mutable {
      // The job releases the tensor before it counts as done. Otherwise this thread could
      // be the tensor's last owner and free GPU memory, which waits for all streams.
      const Collective mine = std::move(asked);
      stream_.wait(ready);
      return run(mine);
    });
    auto work = std::make_unique<Work>(ready, job.get_future().share());
    if (thread_) {
      thread_->submit(std::move(job));
    } else {
      job();
      work->wait(producer);  // it has run; this throws its exception, if any
    }
    return work;
  }

 private:
  // Runs a whole collective. Returns its milliseconds.
  double run(const Collective& collective) {
    using Clock = std::chrono::steady_clock;
    auto begin = Clock::now();
    on_host(stream_, collective.tensor, [&](std::span<float> data) {
      begin = Clock::now();  // until now, backward was computing the tensor
      if (!data.empty()) run(collective, data);
    });
    if (!collective.numbers.empty()) average(collective.numbers);
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  }

  // The part that only needs the host's copy of the tensor.
  void run(const Collective& asked, std::span<float> data) {
    using Kind = Collective::Kind;
    if (asked.kind == Kind::broadcast) {
      return dist::broadcast(messages_, data, asked.root,
                             reducer_ ? BroadcastAlgorithm::tree : BroadcastAlgorithm::mpi);
    }
    const CallScope scope(asked.call(), asked.name);
    if (asked.kind == Kind::all_reduce) {
      reducer_ ? reducer_->all_reduce(data, asked.op, algorithm_)
               : all_reduce_mpi(messages_, data, asked.op);
    } else if (asked.kind == Kind::reduce_scatter) {
      reducer_ ? reducer_->reduce_scatter(data, asked.op, algorithm_)
               : reduce_scatter_mpi(messages_, data, asked.op);
    } else {
      reducer_ ? reducer_->all_gather(data, algorithm_) : all_gather_mpi(messages_, data);
    }
    if (pretend_link_ == 0) return;
    // In each half, a rank must send N - 1 of N chunks.
    const double chunks = (asked.kind == Kind::all_reduce ? 2 : 1) * (comm().size() - 1);
    pretend_to_send(chunks / comm().size() * static_cast<double>(data.size_bytes()),
                    pretend_link_);
  }

  // Averages numbers in the device's memory.
  void average(std::span<double> numbers) {
    const CallScope scope("mean of the loss");
    if (device_.is_cpu()) return dist::all_reduce<double>(messages_, numbers, ReduceOp::avg);
    const std::span data(static_cast<double*>(stream_.staging(numbers.size_bytes())),
                         numbers.size());
    copy_bytes(stream_, data.data(), numbers.data(), numbers.size_bytes());
    stream_.synchronize();
    dist::all_reduce<double>(messages_, data, ReduceOp::avg);
    copy_bytes(stream_, numbers.data(), data.data(), numbers.size_bytes());
    stream_.synchronize();
  }

  Communicator messages_;  // carries only this group's messages
  Device device_;
  AllReduceAlgorithm algorithm_;
  double pretend_link_;                // Gbit/s; 0: none
  std::optional<AllReducer> reducer_;  // for the backend `ours`
  Stream stream_;                      // for the copies to and from the host
  std::optional<CommunicationThread> thread_;
};

}  // namespace

std::string to_string(Backend backend) {
  constexpr std::array kNames{"ours", "mpi", "nccl"};
  return kNames.at(static_cast<std::size_t>(backend));
}

BackendChoice choose_backend(const std::string& request, const Communicator& comm,
                             Device device) {
  if (request == "ours") return {Backend::ours, "as requested"};
  if (request == "mpi") return {Backend::mpi, "as requested"};
  auto [possible, reason] = can_use_nccl(comm, device);
  std::string cure;
  if (possible) {
    const auto [nccl, failure] = try_nccl(comm, device);
    if (nccl) return {Backend::nccl, reason, nccl};
    reason = failure;
    cure = "; --backend ours does without NCCL";
  }
  if (request == "nccl") throw Error("--backend: nccl: " + reason + cure);
  return {Backend::ours, reason};
}

std::unique_ptr<ProcessGroup> make_process_group(Backend backend, const Communicator& comm,
                                                 Device device, AllReduceAlgorithm algorithm,
                                                 bool overlap, double pretend_link,
                                                 std::shared_ptr<NcclCommunicator> nccl) {
  if (backend == Backend::nccl) {
    return make_nccl_process_group(comm, device, std::move(nccl));
  }
  return std::make_unique<HostProcessGroup>(backend, comm, device, algorithm, overlap,
                                            pretend_link);
}

}  // namespace dist
