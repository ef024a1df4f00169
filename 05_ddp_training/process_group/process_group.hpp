// What this file adds: a common interface to every backend's collectives on tensors (like
// ProcessGroup and Work in torch.distributed). Two streams define the order of work on a GPU:
// the collective starts after the work queued on `producer`, which computes the tensor, and
// work queued on `consumer`, which uses the result, starts after the collective. On the CPU,
// neither has any effect. Collectives are matched by the order of the calls, so all ranks must
// make the same calls in the same order.
#pragma once

#include "03_all_reduce/reduce_op.hpp"
#include "common/communicator.hpp"
#include "common/tensor.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace dist {

// A collective in progress. Its tensor and numbers belong to the process group until wait()
// returns. `ready` marks the end of the work that computes the tensor.
class Work {
 public:
  // Of a collective on the host, which yields its milliseconds, or its exception.
  Work(Event ready, std::shared_future<double> done)
      : ready_(std::move(ready)), done_(std::move(done)) {}
  // Of a collective on a GPU, which is queued between two events.
  Work(Event ready, Event begin, Event end)
      : ready_(std::move(ready)), begin_(std::move(begin)), end_(std::move(end)) {}
  // Waits even if wait() was never called: the numbers may be freed once this object is gone.
  // (A deferred future would only begin now, so it has nothing to wait for.)
  ~Work() {
    using std::chrono::seconds;
    if (done_.valid() && done_.wait_for(seconds(0)) != std::future_status::deferred) {
      done_.wait();
    }
  }
  Work(Work&&) = delete;

  // Work queued on `consumer` after this call sees the result. The host waits only for a
  // collective on the host, and an exception in it is rethrown here.
  void wait(const Stream& consumer) {
    wait_begin_ = consumer.record_event();
    done_.valid() ? static_cast<void>(done_.get()) : consumer.wait(end_);
    wait_end_ = consumer.record_event();
  }

  // Known once the work queued on the consumer is done, in milliseconds: from begin to end, how
  // long the consumer waited, and how much later than `first` this was ready.
  double elapsed_ms() const {
    return done_.valid() ? done_.get() : dist::elapsed_ms(begin_, end_);
  }
  double exposed_ms() const { return dist::elapsed_ms(wait_begin_, wait_end_); }
  double ready_ms(const Work& first) const { return dist::elapsed_ms(first.ready_, ready_); }

 private:
  Event ready_;
  std::shared_future<double> done_;
  Event begin_, end_, wait_begin_, wait_end_;
};

// What a process group is asked to do, in place. Fields that the kind does not need are unused.
struct Collective {
  // An all-reduce consists of two halves. reduce_scatter leaves the reduction of chunk r
  // (02_broadcast/chunks.hpp) on rank r, where it has the same bits as all_reduce would give
  // it, if `ours` uses the ring; the rank's other chunks then hold anything. all_gather copies
  // chunk r of rank r to all ranks.
  enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast };
  Kind kind;
  Tensor tensor;
  ReduceOp op = ReduceOp::sum;  // avg: our own all-reduce and MPI's divide in 03's finish()
  std::string name{};           // for the trace and for hang reports
  // These travel with a reduction, in the same device's memory, and are averaged in double
  // precision.
  std::span<double> numbers{};
  int root = 0;  // of a broadcast

  std::string_view call() const {
    constexpr std::array kCalls{"all_reduce", "reduce_scatter", "all_gather", "broadcast"};
    return kCalls.at(static_cast<std::size_t>(kind));
  }
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  // Returns an uninitialized tensor in the kind of memory that is fastest for this group.
  // Called on all ranks, with the same shapes in the same order, while no collective is in
  // progress. Each rank may free its tensor independently.
  virtual Tensor allocate(Shape shape) = 0;
  // Starts a collective. After a reduction, all ranks have bitwise equal results.
  [[nodiscard]] virtual std::unique_ptr<Work> start(const Collective& collective,
                                                    const Stream& producer) = 0;
  // Makes the host wait for `event`. Throws Error if a collective queued before it failed, or
  // if a rank that the collective needs did not arrive in time.
  virtual void synchronize(const Event& event) { event.synchronize(); }

  [[nodiscard]] std::unique_ptr<Work> all_reduce(const Tensor& tensor, ReduceOp op,
                                                 const Stream& producer,
                                                 const std::string& name = {},
                                                 std::span<double> numbers = {}) {
    return start({Collective::Kind::all_reduce, tensor, op, name, numbers}, producer);
  }
  [[nodiscard]] std::unique_ptr<Work> all_gather(const Tensor& tensor, const Stream& producer,
                                                 const std::string& name = {}) {
    return start({.kind = Collective::Kind::all_gather, .tensor = tensor, .name = name},
                 producer);
  }
  [[nodiscard]] std::unique_ptr<Work> broadcast(const Tensor& tensor, int root,
                                                const Stream& producer) {
    return start({.kind = Collective::Kind::broadcast, .tensor = tensor, .root = root},
                 producer);
  }

  const Communicator& comm() const { return comm_; }
  // Whether collectives run concurrently with the caller's own work.
  bool overlaps() const { return overlaps_; }
  const std::string& description() const { return description_; }  // "ours (ring)"

 protected:
  // `comm` must outlive the group.
  ProcessGroup(const Communicator& comm, bool overlaps, std::string description)
      : comm_(comm), overlaps_(overlaps), description_(std::move(description)) {}

 private:
  const Communicator& comm_;
  bool overlaps_;
  std::string description_;
};

enum class Backend { ours, mpi, nccl };
std::string to_string(Backend backend);

class NcclCommunicator;

struct BackendChoice {
  Backend backend = Backend::ours;
  std::string reason;                           // for display
  std::shared_ptr<NcclCommunicator> nccl = {};  // of the backend nccl: connected, and tried
};
// Called on all ranks; all get the same result. `request` is auto, ours, mpi or nccl; auto
// means nccl if each rank has its own GPU and NCCL works with them, and otherwise ours. Throws
// Error on all ranks, naming --backend, if nccl is requested but unavailable.
BackendChoice choose_backend(const std::string& request, const Communicator& comm,
                             Device device);

// Called on all ranks. Only `ours` uses `algorithm`; only `ours` and `mpi` use `overlap`, and
// stage tensors on a GPU through pinned host memory. Without overlap, their collectives have
// finished when the call returns. NCCL needs a GPU for each rank. `comm` must outlive the
// group. Above 0, `pretend_link` adds to each reduction and all-gather of `ours` and `mpi` the
// time that its bytes take on a link of this many Gbit/s: the thread that runs them sleeps.
// Only `nccl` uses a connection, and makes one unless it gets it.
std::unique_ptr<ProcessGroup> make_process_group(Backend backend, const Communicator& comm,
                                                 Device device, AllReduceAlgorithm algorithm,
                                                 bool overlap = false, double pretend_link = 0,
                                                 std::shared_ptr<NcclCommunicator> nccl = {});
std::unique_ptr<ProcessGroup> make_nccl_process_group(
    const Communicator& comm, Device device, std::shared_ptr<NcclCommunicator> nccl = {});

// Called on all ranks. Connects their GPUs by NCCL, and all-reduces a number: only then does
// NCCL find out whether they can reach each other. Returns the connection or, if a rank fails,
// why, on all ranks.
struct NcclTrial {
  std::shared_ptr<NcclCommunicator> nccl;
  std::string failure;
};
NcclTrial try_nccl(const Communicator& comm, Device device);

}  // namespace dist
