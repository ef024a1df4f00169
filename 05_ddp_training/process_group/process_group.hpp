// What this file adds: a common interface to every backend's collectives on tensors (like
// ProcessGroup and Work in torch.distributed).
//
// The two stream parameters define the order of work on a GPU. `producer` is the stream that
// computes the tensor: the collective starts after the work queued there. `consumer` is the
// stream that uses the result: work queued there starts after the collective. On the CPU,
// neither has any effect. Collectives are matched by the order of the calls, so all ranks must
// make the same calls in the same order.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "common/communicator.hpp"
#include "common/tensor.hpp"

#include <memory>
#include <span>
#include <string>

namespace dist {

// A collective in progress. Its tensor belongs to the process group until wait() returns.
class Work {
 public:
  virtual ~Work() = default;
  virtual bool is_completed() = 0;
  // Work queued on `consumer` after this call sees the result. On a GPU the host does not wait.
  // On the CPU the host waits, and an exception in the collective is rethrown here.
  virtual void wait(const Stream& consumer) = 0;
  // Makes the host wait until the collective has finished. Rethrows its exception, if any.
  virtual void synchronize() = 0;
  // Milliseconds from start to end, or NaN if not measurable. The host waits for the end.
  virtual double elapsed_ms() = 0;
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  // Returns an uninitialized tensor in the kind of memory that is fastest for this group.
  // Called on all ranks, with the same shapes in the same order, while no collective is in
  // progress. Each rank may free its tensor independently.
  virtual Tensor allocate(Shape shape) = 0;
  // Reduces over all ranks, in place; all ranks get bitwise equal results. `name` appears in
  // the trace and in hang reports. `numbers`, in the same device's memory, travel along and are
  // averaged in double precision.
  [[nodiscard]] virtual std::unique_ptr<Work> all_reduce(const Tensor& tensor, ReduceOp op,
                                                         const Stream& producer,
                                                         const std::string& name = {},
                                                         std::span<double> numbers = {}) = 0;
  // The two halves of an all-reduce, in place. reduce_scatter leaves the reduction of chunk r
  // (02_broadcast/chunks.hpp) on rank r, where it has the same bits as all_reduce would give
  // it, if `ours` uses the ring; the rank's other chunks then hold anything. all_gather copies
  // chunk r of rank r to all ranks.
  [[nodiscard]] virtual std::unique_ptr<Work> reduce_scatter(
      const Tensor& tensor, ReduceOp op, const Stream& producer, const std::string& name = {},
      std::span<double> numbers = {}) = 0;
  [[nodiscard]] virtual std::unique_ptr<Work> all_gather(const Tensor& tensor,
                                                         const Stream& producer,
                                                         const std::string& name = {}) = 0;
  // Copies the numbers of rank `root` to all ranks, in place.
  [[nodiscard]] virtual std::unique_ptr<Work> broadcast(const Tensor& tensor, int root,
                                                        const Stream& producer) = 0;

  // The ranks of this group.
  virtual const Communicator& comm() const = 0;
  // Makes the host wait for `event`. Throws Error if a collective queued before it failed, or
  // if a rank that the collective needs did not arrive in time.
  virtual void synchronize(const Event& event) = 0;
  void synchronize(const Stream& stream) { synchronize(stream.record_event()); }

  // Whether collectives run concurrently with the caller's own work.
  virtual bool overlaps() const = 0;
  virtual std::string description() const = 0;  // "ours (ring)", for the reader
};

enum class Backend { ours, mpi, mpi_nonblocking, nccl };

std::string to_string(Backend backend);

struct BackendChoice {
  Backend backend = Backend::ours;
  std::string reason;  // why this backend, in one sentence
};

// Called on all ranks; all get the same result. `request` is auto, ours, mpi, mpi-nonblocking
// or nccl; auto means nccl if each rank has its own GPU, and otherwise ours. If nccl is
// requested but unavailable, throws Error on all ranks, naming --backend.
BackendChoice choose_backend(const std::string& request, const Communicator& comm,
                             Device device);

// Called on all ranks. Only `ours` uses `algorithm`; only `ours` and `mpi` use `overlap`.
// `comm` must outlive the group.
std::unique_ptr<ProcessGroup> make_process_group(Backend backend, const Communicator& comm,
                                                 Device device, AllReduceAlgorithm algorithm,
                                                 bool overlap = false);

}  // namespace dist
