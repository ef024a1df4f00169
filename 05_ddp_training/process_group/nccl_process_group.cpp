// The backend `nccl`: collectives on a separate GPU stream, concurrent with the computation.
// Look at: start, with an event before the collective and one after it.
#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "03_all_reduce/more_algorithms/nccl_all_reduce.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "common/console.hpp"
#include "common/watch.hpp"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace dist {
namespace {

class NcclProcessGroup : public ProcessGroup {
 public:
  NcclProcessGroup(const Communicator& comm, Device device,
                   std::shared_ptr<NcclCommunicator> nccl)
      : ProcessGroup(comm, /*overlaps=*/true, "nccl " + nccl_version()),
        stream_(device, /*threads=*/1, Stream::Priority::high),
        connection_(std::move(nccl)),
        nccl_(*connection_) {}

  Tensor allocate(Shape shape) override { return allocate_nccl(nccl_, std::move(shape)); }

  std::unique_ptr<Work> start(const Collective& collective, const Stream& producer) override {
    // Kernels queued on `producer` may still be writing to the tensor. The event makes our
    // stream wait for them, while the host is free to queue further work.
    const Event ready = producer.record_event();
    stream_.wait(ready);
    Event begin = stream_.record_event();
    queue(collective);
    return std::make_unique<Work>(ready, std::move(begin), stream_.record_event());
  }

  void synchronize(const Event& event) override { nccl_.synchronize(event); }

 private:
  void queue(const Collective& collective) {
    const auto& [kind, tensor, op, name, numbers, root] = collective;
    if (kind == Collective::Kind::broadcast) {
      return broadcast_nccl(nccl_, tensor, root, stream_);
    }
    const CallScope scope(collective.call(), name);
    if (kind == Collective::Kind::all_gather) return all_gather_nccl(nccl_, tensor, stream_);
    if (kind == Collective::Kind::reduce_scatter) {
      return reduce_scatter_nccl(nccl_, tensor, op, stream_, numbers);
    }
    all_reduce_nccl(nccl_, tensor, op, stream_, numbers);
  }

  Stream stream_;
  std::shared_ptr<NcclCommunicator> connection_;
  NcclCommunicator& nccl_;
};

}  // namespace

NcclTrial try_nccl(const Communicator& comm, Device device) {
  // GPUs of one host connect within seconds. A rank whose own call fails cannot tell the
  // others.
  constexpr std::chrono::seconds kLimit{30};
  std::shared_ptr<NcclCommunicator> nccl;
  std::string failure;
  try {
    nccl = std::make_shared<NcclCommunicator>(connect_nccl(comm, device));
    nccl->set_limit(kLimit);
    const Stream stream(device);
    const Tensor number({1}, device);
    float sum = 1;
    copy_bytes(stream, number.data(), &sum, sizeof sum);
    all_reduce_nccl(*nccl, number, ReduceOp::sum, stream);
    nccl->synchronize(stream);
    copy_bytes(stream, &sum, number.data(), sizeof sum);
    stream.synchronize();
    if (sum != static_cast<float>(comm.size())) failure = "NCCL's first sum was wrong";
    nccl->set_limit();
  } catch (const Error& error) {
    failure = error.what();
  }
  const std::optional<int> failed = comm.first_to_disagree(failure.empty());
  if (!failed) return {std::move(nccl), ""};
  if (nccl) nccl->abort();
  return {nullptr, fmt::format("rank {}: {}", *failed, broadcast_text(comm, failure, *failed))};
}

std::unique_ptr<ProcessGroup> make_nccl_process_group(const Communicator& comm, Device device,
                                                      std::shared_ptr<NcclCommunicator> nccl) {
  if (!nccl) nccl = std::make_shared<NcclCommunicator>(connect_nccl(comm, device));
  return std::make_unique<NcclProcessGroup>(comm, device, std::move(nccl));
}

}  // namespace dist
