#include "05_ddp_training/process_group/nonblocking_mpi_process_group.hpp"

#include "common/check.hpp"
#include "common/watch.hpp"

#include <mpi.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>

namespace dist {
namespace {

class RequestWork : public Work {
 public:
  // `finish` runs once, when the request has completed. `name` identifies the wait in hang
  // reports.
  RequestWork(MPI_Request request, std::string operation, std::string name,
              std::function<void()> finish)
      : request_(request),
        operation_(std::move(operation)),
        name_(std::move(name)),
        finish_(std::move(finish)) {}
  ~RequestWork() override {
    if (request_ != MPI_REQUEST_NULL) MPI_Wait(&request_, MPI_STATUS_IGNORE);
  }

  bool is_completed() override {
    if (request_ == MPI_REQUEST_NULL) return true;
    int done = 0;
    MPI_CHECK(MPI_Test(&request_, &done, MPI_STATUS_IGNORE));
    if (done != 0) finish_();
    return done != 0;
  }
  void wait(const Stream&) override { synchronize(); }
  void synchronize() override {
    const CallScope scope(operation_, name_);
    if (request_ == MPI_REQUEST_NULL) return;
    MPI_CHECK(MPI_Wait(&request_, MPI_STATUS_IGNORE));
    finish_();
  }
  // Most of the time between the call and the end of the wait, nothing is being sent, and MPI
  // does not report when it sends something.
  double elapsed_ms() override { return std::numeric_limits<double>::quiet_NaN(); }

 private:
  MPI_Request request_;
  std::string operation_;
  std::string name_;
  std::function<void()> finish_;
};

}  // namespace

std::unique_ptr<Work> NonblockingMpiProcessGroup::all_reduce(const Tensor& tensor, ReduceOp op,
                                                             const Stream&,
                                                             const std::string& name) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Iallreduce(MPI_IN_PLACE, tensor.data(), mpi_count(tensor.numel()), MPI_FLOAT,
                           op == ReduceOp::max ? MPI_MAX : MPI_SUM, comm_.get(), &request));
  return std::make_unique<RequestWork>(
      request, "all_reduce", name,
      [tensor, op, ranks = comm_.size()] { finish(op, tensor.span(), ranks); });
}

std::unique_ptr<Work> NonblockingMpiProcessGroup::mean(std::span<double> numbers,
                                                       std::span<double> result,
                                                       const Stream&) {
  std::ranges::copy(numbers, result.begin());
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Iallreduce(MPI_IN_PLACE, result.data(), mpi_count(result.size()), MPI_DOUBLE,
                           MPI_SUM, comm_.get(), &request));
  return std::make_unique<RequestWork>(
      request, "mean of the loss", "",
      [result, ranks = comm_.size()] { finish(ReduceOp::avg, result, ranks); });
}

std::unique_ptr<Work> NonblockingMpiProcessGroup::broadcast(const Tensor& tensor, int root,
                                                            const Stream&) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Ibcast(tensor.data(), mpi_count(tensor.numel()), MPI_FLOAT, root, comm_.get(),
                       &request));
  return std::make_unique<RequestWork>(request, "broadcast", "", [] {});
}

}  // namespace dist
