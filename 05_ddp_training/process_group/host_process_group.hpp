// The backends `ours` and `mpi`: collectives that run on the host, from lessons 2 and 3.
#pragma once

#include "03_all_reduce/choice/all_reducer.hpp"
#include "05_ddp_training/process_group/communication_thread.hpp"
#include "05_ddp_training/process_group/process_group.hpp"

#include <functional>
#include <optional>

namespace dist {

// Tensors on a GPU are staged through pinned host memory. With `overlap`, collectives run on a
// separate thread; otherwise they have finished when the call returns.
class HostProcessGroup : public ProcessGroup {
 public:
  // Called on all ranks. `backend` is `ours` or `mpi`; only `ours` uses `algorithm`. `comm`
  // must outlive the group.
  HostProcessGroup(Backend backend, const Communicator& comm, Device device,
                   AllReduceAlgorithm algorithm, bool overlap);

  Tensor allocate(Shape shape) override;
  std::unique_ptr<Work> all_reduce(const Tensor& tensor, ReduceOp op, const Stream& producer,
                                   const std::string& name = {},
                                   std::span<double> numbers = {}) override;
  std::unique_ptr<Work> reduce_scatter(const Tensor& tensor, ReduceOp op,
                                       const Stream& producer, const std::string& name = {},
                                       std::span<double> numbers = {}) override;
  std::unique_ptr<Work> all_gather(const Tensor& tensor, const Stream& producer,
                                   const std::string& name = {}) override;
  std::unique_ptr<Work> broadcast(const Tensor& tensor, int root,
                                  const Stream& producer) override;
  const Communicator& comm() const override { return comm_; }
  using ProcessGroup::synchronize;
  void synchronize(const Event& event) override { event.synchronize(); }
  bool overlaps() const override { return thread_.has_value(); }
  std::string description() const override;

 private:
  // After the work queued on `producer`, calls `operate` with the host's copy of `tensor`, and
  // averages `numbers`.
  std::unique_ptr<Work> run(const Tensor& tensor, const Stream& producer,
                            std::function<void(std::span<float>)> operate,
                            std::span<double> numbers = {});
  // Averages numbers in the device's memory.
  void average(std::span<double> numbers);
  // Runs `job` immediately, or on the separate thread.
  std::unique_ptr<Work> run(CommunicationThread::Job job, const Stream& producer);

  Backend backend_;
  const Communicator& comm_;
  // Carries only this group's messages. The separate thread waits for them with short pauses:
  // busy waiting would compete with the backward pass for cores and delay each message so much
  // that almost nothing would be hidden.
  Communicator messages_;
  Device device_;
  AllReduceAlgorithm algorithm_;
  std::optional<AllReducer> reducer_;  // for the backend `ours`
  Stream stream_;                      // for the copies to and from the host
  std::optional<CommunicationThread> thread_;
};

}  // namespace dist
