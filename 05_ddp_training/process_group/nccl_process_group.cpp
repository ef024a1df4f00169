// The backend `nccl`: collectives on a separate GPU stream, concurrent with the computation.
// Look at: start, with an event before the collective and one after it.
#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "02_broadcast/binomial_tree.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "03_all_reduce/more_algorithms/nccl_all_reduce.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "common/console.hpp"
#include "common/watch.hpp"

#include <fmt/format.h>

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

// Why the first rank that failed did, on all ranks; empty if none did. If another rank still
// waits for it in NCCL, the hang report says what it is about to tell.
static std::string agree_on(const Communicator& comm, const std::string& failure) {
  const CallScope scope("agree on NCCL", failure);
  const std::optional<int> failed = comm.first_to_disagree(failure.empty());
  if (!failed) return "";
  return fmt::format("rank {}: {}", *failed, broadcast_text(comm, failure, *failed));
}

// The sum of 1 over all ranks.
static float first_sum(NcclCommunicator& nccl) {
  const Stream stream(nccl.device());
  const Tensor number({1}, nccl.device());
  float sum = 1;
  copy_bytes(stream, number.data(), &sum, sizeof sum);
  all_reduce_nccl(nccl, number, ReduceOp::sum, stream);
  nccl.synchronize(stream);
  copy_bytes(stream, &sum, number.data(), sizeof sum);
  stream.synchronize();
  return sum;
}

NcclTrial try_nccl(const Communicator& comm, Device device) {
  const StartScope start;
  NcclId id{};
  std::string failure;
  try {
    if (comm.rank() == 0) id = make_nccl_id();
  } catch (const Error& error) {
    failure = error.what();
  }
  if (failure = agree_on(comm, failure); !failure.empty()) return {nullptr, failure};
  broadcast_tree<char>(comm, id, 0);
  std::shared_ptr<NcclCommunicator> nccl;
  try {
    nccl = std::make_shared<NcclCommunicator>(id, comm.rank(), comm.size(), device);
    nccl->set_limit(NcclCommunicator::default_limit() * 3 / 4);  // before the watch's
    if (first_sum(*nccl) != static_cast<float>(comm.size())) failure = "the first sum is wrong";
    nccl->set_limit();
  } catch (const Error& error) {
    failure = error.what();
    if (nccl) nccl->abort();  // so that other ranks do not wait for this one
    nccl.reset();
  }
  failure = agree_on(comm, failure);
  if (!failure.empty() && nccl) nccl->abort();
  return {failure.empty() ? std::move(nccl) : nullptr, failure};
}

std::unique_ptr<ProcessGroup> make_nccl_process_group(const Communicator& comm, Device device,
                                                      std::shared_ptr<NcclCommunicator> nccl) {
  if (!nccl) nccl = std::make_shared<NcclCommunicator>(connect_nccl(comm, device));
  return std::make_unique<NcclProcessGroup>(comm, device, std::move(nccl));
}

}  // namespace dist
