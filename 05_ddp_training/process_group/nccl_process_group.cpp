// The backend `nccl`: collectives on a separate GPU stream, concurrent with the computation.
// Look at: start, with an event before the collective and one after it.
#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "03_all_reduce/more_algorithms/nccl_all_reduce.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "common/watch.hpp"

#include <utility>

namespace dist {
namespace {

class NcclProcessGroup : public ProcessGroup {
 public:
  NcclProcessGroup(const Communicator& comm, Device device)
      : ProcessGroup(comm, /*overlaps=*/true, "nccl " + nccl_version()),
        stream_(device, /*threads=*/1, Stream::Priority::high),
        nccl_(connect_nccl(comm, device)) {}

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
  NcclCommunicator nccl_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_nccl_process_group(const Communicator& comm, Device device) {
  return std::make_unique<NcclProcessGroup>(comm, device);
}

}  // namespace dist
