// The backends ours and mpi: collectives that the host runs, from lessons 2 and 3.
#pragma once

#include "03_all_reduce/advanced/all_reducer.hpp"
#include "05_ddp_training/process_group/communication_thread.hpp"
#include "05_ddp_training/process_group/process_group.hpp"

#include <functional>
#include <optional>

namespace dist {

// Tensors on a GPU are staged through pinned host memory. With `overlap` collectives run on a
// thread of their own; without it they are done when the call returns.
class HostProcessGroup : public ProcessGroup {
 public:
  // Called on all ranks. `backend` is ours or mpi; `algorithm` is for ours. `comm` must outlive
  // the group.
  HostProcessGroup(Backend backend, const Communicator& comm, Device device,
                   AllReduceAlgorithm algorithm, bool overlap);

  Tensor allocate(Shape shape) override;
  std::unique_ptr<Work> all_reduce(const Tensor& tensor, ReduceOp op, const Stream& producer,
                                   const std::string& name = {}) override;
  std::unique_ptr<Work> broadcast(const Tensor& tensor, int root,
                                  const Stream& producer) override;
  std::unique_ptr<Work> mean(std::span<double> numbers, std::span<double> result,
                             const Stream& producer) override;
  const Communicator& comm() const override { return comm_; }
  void synchronize(const Stream& stream) override { stream.synchronize(); }
  bool overlaps() const override { return thread_.has_value(); }
  std::string description() const override;

 private:
  // operate(std::span<float>) on the host's view of `tensor`, after what `producer` has queued.
  std::unique_ptr<Work> run(const Tensor& tensor, const Stream& producer,
                            std::function<void(std::span<float>)> operate);
  // Now, or on the thread.
  std::unique_ptr<Work> run(std::function<void()> job, const Stream& producer);

  Backend backend_;
  const Communicator& comm_;
  // Of the group's own messages. A thread's waits are patient: otherwise they take turns with
  // backward, and each message is so late that next to nothing is hidden.
  Communicator messages_;
  Device device_;
  AllReduceAlgorithm algorithm_;
  std::optional<AllReducer> reducer_;  // ours
  Stream stream_;                      // of the copies to and from the host
  std::optional<CommunicationThread> thread_;
};

}  // namespace dist
