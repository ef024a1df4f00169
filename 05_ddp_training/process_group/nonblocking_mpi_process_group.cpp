#include "05_ddp_training/process_group/nonblocking_mpi_process_group.hpp"

#include "common/check.hpp"

#include <mpi.h>

#include <chrono>
#include <functional>
#include <utility>

namespace dist {
namespace {

class RequestWork : public Work {
 public:
  // `finish` runs once, when the request is done.
  RequestWork(MPI_Request request, std::function<void()> finish)
      : request_(request), finish_(std::move(finish)) {}
  ~RequestWork() override {
    if (request_ != MPI_REQUEST_NULL) MPI_Wait(&request_, MPI_STATUS_IGNORE);
  }

  bool is_completed() override {
    if (request_ == MPI_REQUEST_NULL) return true;
    int done = 0;
    MPI_CHECK(MPI_Test(&request_, &done, MPI_STATUS_IGNORE));
    if (done != 0) end();
    return done != 0;
  }
  void wait(const Stream&) override {
    if (request_ == MPI_REQUEST_NULL) return;
    MPI_CHECK(MPI_Wait(&request_, MPI_STATUS_IGNORE));
    end();
  }
  double elapsed_ms() override {
    return std::chrono::duration<double, std::milli>(end_ - begin_).count();
  }

 private:
  void end() {
    finish_();
    end_ = std::chrono::steady_clock::now();
  }

  MPI_Request request_;
  std::function<void()> finish_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point end_ = begin_;
};

}  // namespace

std::unique_ptr<Work> NonblockingMpiProcessGroup::all_reduce(const Tensor& tensor, ReduceOp op,
                                                             const Stream&) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Iallreduce(MPI_IN_PLACE, tensor.data(), mpi_count(tensor.numel()), MPI_FLOAT,
                           op == ReduceOp::max ? MPI_MAX : MPI_SUM, comm_.get(), &request));
  return std::make_unique<RequestWork>(
      request, [tensor, op, ranks = comm_.size()] { finish(op, tensor.span(), ranks); });
}

std::unique_ptr<Work> NonblockingMpiProcessGroup::broadcast(const Tensor& tensor, int root,
                                                            const Stream&) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Ibcast(tensor.data(), mpi_count(tensor.numel()), MPI_FLOAT, root, comm_.get(),
                       &request));
  return std::make_unique<RequestWork>(request, [] {});
}

}  // namespace dist
