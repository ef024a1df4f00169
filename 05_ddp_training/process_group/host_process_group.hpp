// The backends `ours` and `mpi`: collectives that run on the host, from lessons 2 and 3.
#pragma once

#include "03_all_reduce/choice/all_reducer.hpp"
#include "05_ddp_training/process_group/communication_thread.hpp"
#include "05_ddp_training/process_group/process_group.hpp"

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
  std::unique_ptr<Work> start(const Collective& collective, const Stream& producer) override;
  void synchronize(const Event& event) override { event.synchronize(); }

 private:
  // Runs a whole collective, once the stream has been told to wait for its tensor. Returns its
  // milliseconds.
  double run(const Collective& collective);
  // Its part that only needs the host's copy of the tensor.
  void run(const Collective& collective, std::span<float> data);
  // Averages numbers in the device's memory.
  void average(std::span<double> numbers);

  Communicator messages_;  // carries only this group's messages
  Device device_;
  AllReduceAlgorithm algorithm_;
  std::optional<AllReducer> reducer_;  // for the backend `ours`
  Stream stream_;                      // for the copies to and from the host
  std::optional<CommunicationThread> thread_;
};

}  // namespace dist
