// What this file adds: broadcasts of four numbers and of a model.
// Look at: show_replicas, the main use of a broadcast in training.
#include "02_broadcast/show/acts.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "02_broadcast/broadcast.hpp"
#include "02_broadcast/fingerprint.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "02_broadcast/random.hpp"
#include "common/join.hpp"

#include <mpi.h>

#include <fmt/core.h>

#include <vector>

namespace dist {

void run_broadcast(const Broadcasts& with, const std::string& algorithm, const Tensor& tensor) {
  if (algorithm == "nccl") {
    broadcast_nccl(*with.nccl, tensor, with.root, with.program.stream);
    with.nccl->synchronize(with.program.stream);
    return;
  }
  // Our broadcasts only pass the memory on to MPI; they do not read it.
  for_mpi(with.program.stream, tensor, [&](std::span<float> data) {
    broadcast<float>(with.program.comm, data, with.root, broadcast_algorithm(algorithm),
                     with.measured.value_or(LinkCost{}));
  });
}

std::size_t wrong_elements(const Broadcasts& with, const Tensor& tensor) {
  const std::vector<float> data = to_host(with.program.stream, tensor);
  std::uint64_t wrong =
      count_wrong(data, [&](std::size_t i) { return tracer_number(with.root, i); });
  MPI_CHECK(
      MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UINT64_T, MPI_SUM, with.program.comm.get()));
  return wrong;
}

// Broadcasts the four numbers of lesson 1.
bool show_four_numbers(const Broadcasts& with, const std::string& algorithm) {
  const Tensor tensor({4}, with.program.stream.device());
  on_host(with.program.stream, tensor,
          [&](std::span<float> data) { fill_tracer_numbers(data, with.program.comm.rank()); });
  const std::vector<float> before = to_host(with.program.stream, tensor);
  run_broadcast(with, algorithm, tensor);
  with.program.console.line(
      fmt::format("{}: rank {} broadcasts its four numbers", algorithm, with.root));
  lines_in_rank_order(
      with.program.console, with.program.comm,
      fmt::format("  rank {}  {}  ->  {}", with.program.comm.rank(), join(before, " ", "{:6}"),
                  join(to_host(with.program.stream, tensor), " ", "{:6}")));
  return wrong_elements(with, tensor) == 0;
}

// [3] Makes all replicas of a model equal. Every rank draws initial weights with its own seed;
// after the broadcast all ranks hold the root's weights, bit for bit. The constructor of
// DistributedDataParallel also broadcasts the weights.
bool show_replicas(const Broadcasts& with, const std::string& algorithm) {
  constexpr std::size_t kInputs = 8;
  constexpr std::size_t kOutputs = 4;
  Generator generator(with.program.common.seed +
                      static_cast<std::uint64_t>(with.program.comm.rank()));
  std::vector<float> model(kOutputs * kInputs + kOutputs);
  const std::span<float> parameters(model);
  init_linear(parameters.first(kOutputs * kInputs), parameters.last(kOutputs), kInputs,
              generator);

  const Tensor tensor({model.size()}, with.program.stream.device());
  on_host(with.program.stream, tensor,
          [&](std::span<float> data) { std::copy(model.begin(), model.end(), data.begin()); });
  run_broadcast(with, algorithm, tensor);
  const std::vector<float> after = to_host(with.program.stream, tensor);

  // The output shows only hashes, but the verdict compares every element with the result of a
  // second broadcast, which MPI performs.
  with.program.console.line(
      "a model of 36 parameters, initialised with seed + rank: hash before and after");
  lines_in_rank_order(with.program.console, with.program.comm,
                      fmt::format("  rank {}  {:016x}  ->  {:016x}", with.program.comm.rank(),
                                  fingerprint(model), fingerprint(after)));
  broadcast_mpi<float>(with.program.comm, model, with.root);
  return with.program.comm.all_agree(after == model);
}

}  // namespace dist
