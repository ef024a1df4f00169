#include "05_ddp_training/process_group/nonblocking_mpi_process_group.hpp"

#include "05_ddp_training/process_group/mpi_halves.hpp"
#include "common/check.hpp"
#include "common/watch.hpp"

#include <mpi.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace dist {
namespace {

class RequestWork : public Work {
 public:
  // `finish` runs once, when all requests have completed. `name` identifies the wait in hang
  // reports.
  RequestWork(std::vector<MPI_Request> requests, std::string operation, std::string name,
              std::function<void()> finish)
      : requests_(std::move(requests)),
        operation_(std::move(operation)),
        name_(std::move(name)),
        finish_(std::move(finish)) {}
  ~RequestWork() override {
    MPI_Waitall(mpi_count(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  }

  bool is_completed() override {
    if (!finish_) return true;
    int done = 0;
    MPI_CHECK(
        MPI_Testall(mpi_count(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE));
    if (done != 0) std::exchange(finish_, nullptr)();
    return done != 0;
  }
  void wait(const Stream&) override { synchronize(); }
  void synchronize() override {
    const CallScope scope(operation_, name_);
    if (!finish_) return;
    MPI_CHECK(MPI_Waitall(mpi_count(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE));
    std::exchange(finish_, nullptr)();
  }
  // Most of the time between the call and the end of the wait, nothing is being sent, and MPI
  // does not report when it sends something.
  double elapsed_ms() override { return std::numeric_limits<double>::quiet_NaN(); }

 private:
  std::vector<MPI_Request> requests_;
  std::string operation_;
  std::string name_;
  std::function<void()> finish_;  // empty: it has run
};

void add_up(const Communicator& comm, std::span<double> numbers,
            std::vector<MPI_Request>& requests) {
  if (numbers.empty()) return;
  MPI_CHECK(MPI_Iallreduce(MPI_IN_PLACE, numbers.data(), mpi_count(numbers.size()), MPI_DOUBLE,
                           MPI_SUM, comm.get(), &requests.emplace_back()));
}

}  // namespace

std::unique_ptr<Work> NonblockingMpiProcessGroup::all_reduce(const Tensor& tensor, ReduceOp op,
                                                             const Stream&,
                                                             const std::string& name,
                                                             std::span<double> numbers) {
  std::vector<MPI_Request> requests(1);
  MPI_CHECK(MPI_Iallreduce(MPI_IN_PLACE, tensor.data(), mpi_count(tensor.numel()), MPI_FLOAT,
                           op == ReduceOp::max ? MPI_MAX : MPI_SUM, comm_.get(), &requests[0]));
  add_up(comm_, numbers, requests);
  const std::string operation = tensor.numel() > 0 ? "all_reduce" : "mean of the loss";
  return std::make_unique<RequestWork>(std::move(requests), operation, name,
                                       [tensor, numbers, op, ranks = comm_.size()] {
                                         finish(op, tensor.span(), ranks);
                                         finish(ReduceOp::avg, numbers, ranks);
                                       });
}

std::unique_ptr<Work> NonblockingMpiProcessGroup::reduce_scatter(const Tensor& tensor,
                                                                 ReduceOp op, const Stream&,
                                                                 const std::string& name,
                                                                 std::span<double> numbers) {
  const auto chunks = std::make_shared<const MpiChunks>(tensor.numel(), comm_.size());
  std::vector<MPI_Request> requests(1);
  MPI_CHECK(MPI_Ireduce_scatter(MPI_IN_PLACE, tensor.data(), chunks->counts.data(), MPI_FLOAT,
                                op == ReduceOp::max ? MPI_MAX : MPI_SUM, comm_.get(),
                                &requests[0]));
  add_up(comm_, numbers, requests);
  return std::make_unique<RequestWork>(std::move(requests), "reduce_scatter", name,
                                       [&comm = comm_, chunks, tensor, op, numbers] {
                                         place_chunk(comm, tensor.span(), op);
                                         finish(ReduceOp::avg, numbers, comm.size());
                                       });
}

std::unique_ptr<Work> NonblockingMpiProcessGroup::all_gather(const Tensor& tensor,
                                                             const Stream&,
                                                             const std::string& name) {
  const auto chunks = std::make_shared<const MpiChunks>(tensor.numel(), comm_.size());
  std::vector<MPI_Request> requests(1);
  MPI_CHECK(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, tensor.data(),
                            chunks->counts.data(), chunks->begins.data(), MPI_FLOAT,
                            comm_.get(), &requests[0]));
  return std::make_unique<RequestWork>(std::move(requests), "all_gather", name,
                                       [chunks, tensor] {});
}

std::unique_ptr<Work> NonblockingMpiProcessGroup::broadcast(const Tensor& tensor, int root,
                                                            const Stream&) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Ibcast(tensor.data(), mpi_count(tensor.numel()), MPI_FLOAT, root, comm_.get(),
                       &request));
  return std::make_unique<RequestWork>(std::vector{request}, "broadcast", "", [] {});
}

}  // namespace dist
