// What this file adds: collectives on tensors, whoever carries them (torch.distributed's
// ProcessGroup and Work).
//
// The two streams are the ordering facts of a GPU, written into the types. `producer` is where
// the tensor is still being computed: the collective starts after that work. `consumer` is
// where the result is used: work queued there starts after the collective. On the CPU both are
// no-ops. Collectives match by the order of the calls, so all ranks must make the same calls in
// the same order.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "common/communicator.hpp"
#include "common/tensor.hpp"

#include <memory>
#include <span>
#include <string>

namespace dist {

// A collective under way. Its tensor belongs to the process group until wait().
class Work {
 public:
  virtual ~Work() = default;
  virtual bool is_completed() = 0;
  // What is queued on `consumer` from now on sees the result. On a GPU the host does not wait.
  // On the CPU the host does, and an exception of the collective comes out here.
  virtual void wait(const Stream& consumer) = 0;
  // The host waits for the end. An exception of the collective comes out here too.
  virtual void synchronize() = 0;
  // From its start to its end, in milliseconds; the host waits for the end. NaN where nobody
  // can see it.
  virtual double elapsed_ms() = 0;
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  // A tensor from memory that this group moves best; contents undefined. Called on all ranks,
  // with the same shapes in the same order, while no collective is under way. It may go away on
  // each rank by itself.
  virtual Tensor allocate(Shape shape) = 0;
  // The reduction over all ranks, in place; the same bits on all of them. `name` is for the
  // trace and for a hang report.
  [[nodiscard]] virtual std::unique_ptr<Work> all_reduce(const Tensor& tensor, ReduceOp op,
                                                         const Stream& producer,
                                                         const std::string& name = {}) = 0;
  // Root's numbers on all ranks, in place.
  [[nodiscard]] virtual std::unique_ptr<Work> broadcast(const Tensor& tensor, int root,
                                                        const Stream& producer) = 0;

  // The mean over all ranks of a few numbers in double precision, such as a step's loss:
  // numbers, in the device's memory and lost, becomes result, in pinned host memory. Both must
  // stay until the work is done.
  [[nodiscard]] virtual std::unique_ptr<Work> mean(std::span<double> numbers,
                                                   std::span<double> result,
                                                   const Stream& producer) = 0;

  // Its ranks.
  virtual const Communicator& comm() const = 0;
  // The host waits until `stream` is done; throws Error if the collectives queued before that
  // point failed, or if a rank they need has not come for too long.
  virtual void synchronize(const Stream& stream) = 0;

  // Whether collectives run beside the caller's own work.
  virtual bool overlaps() const = 0;
  virtual std::string description() const = 0;  // "ours (ring)", for the reader
};

enum class Backend { ours, mpi, mpi_nonblocking, nccl };

std::string to_string(Backend backend);

struct BackendChoice {
  Backend backend = Backend::ours;
  std::string reason;  // one sentence for the reader
};

// `request` is auto, ours, mpi, mpi-nonblocking or nccl; auto is nccl with one GPU per rank,
// else ours. Called on all ranks, the same on all. Throws Error, on all ranks, naming --backend
// if nccl cannot be had.
BackendChoice choose_backend(const std::string& request, const Communicator& comm,
                             Device device);

// Called on all ranks. `algorithm` is for ours, `overlap` for ours and mpi. `comm` must outlive
// the group.
std::unique_ptr<ProcessGroup> make_process_group(Backend backend, const Communicator& comm,
                                                 Device device, AllReduceAlgorithm algorithm,
                                                 bool overlap = false);

}  // namespace dist
