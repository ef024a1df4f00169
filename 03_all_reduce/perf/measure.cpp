#include "03_all_reduce/perf/measure.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/measure.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "03_all_reduce/nccl_all_reduce.hpp"

#include <mpi.h>

#include <vector>

namespace dist {
namespace {

void run(const Bench& bench, const std::string& algorithm, const Tensor& tensor) {
  const Stream& stream = bench.program.stream;
  if (algorithm == "nccl") {
    all_reduce_nccl(*bench.nccl, tensor, bench.op, stream);
    bench.nccl->synchronize(stream);
    return;
  }
  on_host(stream, tensor, [&](std::span<float> data) {
    bench.reducer.all_reduce(data, bench.op, kAllReduceAlgorithms.at(algorithm));
  });
}

void fill(const Bench& bench, const Tensor& tensor) {
  on_host(bench.program.stream, tensor,
          [&](std::span<float> data) { fill_tracer_numbers(data, bench.program.comm.rank()); });
}

// The value that element `index` must have, computed without an all-reduce.
double expected(const Bench& bench, std::size_t index) {
  const int size = bench.program.comm.size();
  if (bench.op == ReduceOp::max) return tracer_number(size - 1, index);
  double sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += tracer_number(rank, index);
  return bench.op == ReduceOp::sum ? sum : sum / size;
}

// Returns the total number of wrong elements over all ranks. All ranks get the same total.
std::size_t wrong_elements(const Bench& bench, const Tensor& tensor) {
  // Whole numbers below 2^24 are summed exactly. A larger sum or an average may be rounded in
  // each of up to `size` operations.
  const Communicator& comm = bench.program.comm;
  const double tolerance = bench.op == ReduceOp::max ? 0.0 : comm.size() * 0x1p-24;
  const std::vector<float> data = to_host(bench.program.stream, tensor);
  std::uint64_t wrong = count_wrong(
      data, [&](std::size_t i) { return expected(bench, i); }, tolerance);
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UINT64_T, MPI_SUM, comm.get()));
  return wrong;
}

std::optional<double> predict(const Bench& bench, const Result& result) {
  if (!bench.links_measured || result.chosen == "nccl" ||
      !bench.program.stream.device().is_cpu()) {
    return std::nullopt;
  }
  return predict_all_reduce(kAllReduceAlgorithms.at(result.chosen),
                            static_cast<double>(result.bytes), bench.program.comm.size(),
                            bench.reducer.costs());
}

}  // namespace

Tensor allocate_message(const Bench& bench, std::size_t bytes, bool registered) {
  const Device device = bench.program.stream.device();
  const Shape shape{bytes / sizeof(float)};
  if (registered && device.is_cpu()) return bench.reducer.allocate(shape);
  return {shape, device};
}

Result measure(const Bench& bench, const std::string& algorithm, const Tensor& tensor) {
  const Communicator& comm = bench.program.comm;
  Result result;
  result.algorithm = algorithm;
  result.chosen = algorithm;
  result.bytes = tensor.size_bytes();
  if (algorithm != "nccl") {
    result.chosen =
        to_string(bench.reducer.chosen(kAllReduceAlgorithms.at(algorithm), result.bytes));
  }
  result.seconds = median_of_slowest(
      comm, bench.iterations, [&] { fill(bench, tensor); },
      [&] { run(bench, algorithm, tensor); });
  result.wrong = wrong_elements(bench, tensor);
  if (result.chosen != "mpi" && result.chosen != "nccl" && result.chosen != "shared-memory") {
    result.traffic = count_traffic(comm, [&] { run(bench, algorithm, tensor); });
  }
  result.predicted = predict(bench, result);
  return result;
}

}  // namespace dist
