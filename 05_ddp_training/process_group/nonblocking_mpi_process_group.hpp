// A counter-example: one MPI_Iallreduce per bucket looks like overlap but hides very little
// communication.
//
// The MPI standard does not require a non-blocking collective to advance outside MPI calls.
// With Open MPI it does not: during the backward pass, between the call and the wait, almost
// nothing is sent (open-mpi/ompi#8436). Compare the exposed communication of these two runs:
//
//   mpirun -np 2 build/bin/ddp_training --backend mpi-nonblocking
//   mpirun -np 2 build/bin/ddp_training --backend mpi --overlap
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"

namespace dist {

class NonblockingMpiProcessGroup : public ProcessGroup {
 public:
  // For tensors on the CPU. `comm` must outlive the group.
  explicit NonblockingMpiProcessGroup(const Communicator& comm) : comm_(comm) {}

  Tensor allocate(Shape shape) override { return {std::move(shape), Device{}}; }
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
  void synchronize(const Event&) override {}
  bool overlaps() const override { return true; }
  std::string description() const override { return "mpi, non-blocking"; }

 private:
  const Communicator& comm_;
};

}  // namespace dist
