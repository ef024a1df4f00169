// Look at: start, with an event before the collective and one after it.
#include "05_ddp_training/process_group/nccl_process_group.hpp"

#include "02_broadcast/connect_nccl.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "03_all_reduce/nccl_all_reduce.hpp"
#include "common/watch.hpp"

#include <utility>

namespace dist {

NcclProcessGroup::NcclProcessGroup(const Communicator& comm, Device device)
    : ProcessGroup(comm, /*overlaps=*/true, "nccl"),
      stream_(device),
      nccl_(connect_nccl(comm, device)) {}

Tensor NcclProcessGroup::allocate(Shape shape) {
  return allocate_nccl(nccl_, std::move(shape));
}

std::unique_ptr<Work> NcclProcessGroup::start(const Collective& collective,
                                              const Stream& producer) {
  // Kernels queued on `producer` may still be writing to the tensor. The event makes our stream
  // wait for them, while the host is free to queue further work.
  stream_.wait(producer.record_event());
  Event begin = stream_.record_event();
  queue(collective);
  return std::make_unique<Work>(*this, std::move(begin), stream_.record_event());
}

void NcclProcessGroup::queue(const Collective& collective) {
  const auto& [kind, tensor, op, name, numbers, root] = collective;
  switch (kind) {
    case Collective::Kind::all_reduce: {
      const CallScope scope("all_reduce", name);
      return numbers.empty() ? all_reduce_nccl(nccl_, tensor, op, stream_)
                             : all_reduce_nccl(nccl_, tensor, op, numbers, stream_);
    }
    case Collective::Kind::reduce_scatter: {
      const CallScope scope("reduce_scatter", name);
      return reduce_scatter_nccl(nccl_, tensor, op, numbers, stream_);
    }
    case Collective::Kind::all_gather: {
      const CallScope scope("all_gather", name);
      return all_gather_nccl(nccl_, tensor, stream_);
    }
    case Collective::Kind::broadcast: return broadcast_nccl(nccl_, tensor, root, stream_);
  }
}

}  // namespace dist
