// Belief:  a remainder is harmless: one rank has one more batch, and the others finish earlier.
// Predict: every rank trains on its exact shard in batches of 2. One sample is left over, and
//          rank 0 takes it. What does rank 0 do in its last step?
// You see: rank 0 hangs forever, at the very end of the first epoch. The watch ends the job
//          with status 86 and reports that rank 0 is in all_reduce #4, which the others never
//          entered.
// Why:     an all-reduce needs all ranks, but a rank without a batch does not call it. There
//          are two remedies: padding or dropping samples until all ranks have the same number
//          of batches (DistributedSampler), or letting finished ranks answer the other ranks'
//          all-reduces (PyTorch's join).
// In the wild: pytorch/pytorch#33148.
#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/break_it/experiments.hpp"
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "common/watch.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <vector>

namespace dist {

bool break_uneven(const Program& program) {
  constexpr std::size_t kBatch = 2, kBatches = 3;
  const Communicator& comm = program.comm;
  const auto ranks = static_cast<std::size_t>(comm.size());
  const IdxDataset digits = digits_dataset(kBatches * kBatch * ranks + 1, 0);
  const std::vector<std::size_t> mine = exact_shard(digits.size(), comm.size(), comm.rank());
  const Stream host{Device{}};  // the CPU, whatever --device says
  DataLoader loader(digits, kBatch, false, host);

  program.console.line(fmt::format(
      "{} digits on {} ranks in batches of {}: rank 0 has {} batches, and the others "
      "have {}. Step {} hangs until the watch ends the job",
      digits.size(), comm.size(), kBatch, loader.batches(mine.size()), kBatches, kBatches + 1));
  program.console.row({{"break", "uneven"},
                       {"ranks", ranks},
                       {"samples", digits.size()},
                       {"batches_rank_0", loader.batches(mine.size())},
                       {"batches_others", kBatches}});
  int step = 0;
  std::vector<float> gradient;
  for (const Batch& batch : loader.over(mine)) {
    const std::span<const float> pixels = batch.inputs.span();
    // The gradient's values do not matter here, only their number: one value per pixel.
    gradient.assign(pixels.begin(),
                    pixels.begin() + static_cast<std::ptrdiff_t>(digits.features()));
    const CallScope scope("all_reduce", fmt::format("the gradients of step {}", ++step));
    all_reduce_ring<float>(comm, gradient, ReduceOp::avg);
  }
  comm.barrier();  // the end of the epoch, where the others wait for rank 0
  return false;
}

}  // namespace dist
