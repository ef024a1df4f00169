// Belief:  a remainder is harmless: one rank has one more batch, and the others finish earlier.
// Predict: every rank trains on its exact shard in batches of 2. One sample is left over, and
//          rank 0 takes it. What does rank 0 do in its last step?
// You see: rank 0 hangs. The watch reports it in all_reduce #4, which the others never entered.
// Why:     an all-reduce needs all ranks, but a rank without a batch does not call it. Either
//          all ranks get the same number of batches (DistributedSampler), or finished ranks
//          answer the others' all-reduces (PyTorch's join).
#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/batch_plan.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "common/program.hpp"
#include "common/watch.hpp"

#include <fmt/format.h>

#include <vector>

namespace dist {

bool break_uneven(const Program& program) {
  constexpr std::size_t kBatchSize = 2, kBatches = 3;
  const Communicator& comm = program.comm;
  const std::size_t samples = kBatches * kBatchSize * static_cast<std::size_t>(comm.size()) + 1;
  const std::vector<std::size_t> mine = exact_shard(samples, comm.size(), comm.rank());
  const std::size_t batches = BatchPlan(kBatchSize, /*drop=*/false).batches(mine.size());
  program.console.line(
      "{} samples on {} ranks in batches of {}: rank 0 has {} batches, and the others have {}. "
      "Step {} hangs until the watch ends the job",
      samples, comm.size(), kBatchSize, batches, kBatches, kBatches + 1);
  std::vector<float> gradient(100);  // its values do not matter here
  for (std::size_t step = 1; step <= batches; ++step) {
    const CallScope scope("all_reduce", fmt::format("the gradients of step {}", step));
    all_reduce_ring<float>(comm, gradient, ReduceOp::avg);
  }
  comm.barrier();  // the end of the epoch, where the others wait for rank 0
  return false;
}

}  // namespace dist
