#include "05_ddp_training/deterministic/deterministic_data_parallel.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "05_ddp_training/deterministic/tree_sum.hpp"
#include "05_ddp_training/model/kernels.hpp"
#include "common/check.hpp"
#include "common/watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>

namespace dist {

DeterministicDataParallel::DeterministicDataParallel(Module& module, ProcessGroup& group,
                                                     const Stream& stream,
                                                     const VirtualRanks& ranks)
    : DataParallel(module, group, stream),
      ranks_here_(ranks.per_process()),
      number_slots_(slots_for(ranks_here_)) {
  for (std::size_t slot = 0; slot < slots_for(ranks_here_); ++slot) {
    slots_.emplace_back(Shape{module.count()}, stream.device());
  }
  point_gradients_at(0);
}

void DeterministicDataParallel::point_gradients_at(std::size_t slot) {
  std::size_t begin = 0;
  for (Parameter& parameter : module_.parameters()) {
    const std::size_t count = parameter.value.numel();
    parameter.grad = slots_[slot].narrow(begin, count).view(parameter.value.shape());
    begin += count;
  }
}

// Here, a part of a step is the batch of one of this process's virtual ranks. Ordinary data
// parallelism would add to the gradients; here, each part is a separate leaf of the tree.
void DeterministicDataParallel::backward(const Tensor& grad_logits, const Batch::Place& place,
                                         const Stream& stream) {
  if (place.parts != ranks_here_) {
    throw Error(
        fmt::format("a step has {} batches on this process, not {}", ranks_here_, place.parts));
  }
  point_gradients_at(slot_of(place.part));
  module_.backward(grad_logits, stream, Accumulate::no);
  std::vector<double>& numbers = number_slots_[slot_of(place.part)];
  numbers.resize(numbers_.size());
  copy_bytes(stream, numbers.data(), numbers_.data(), numbers_.size_bytes());
  stream.synchronize();
  add_complete_pairs(place.part, [&](std::size_t into, std::size_t from) {
    add_to(stream, slots_[into].numel(), slots_[from].data(), slots_[into].data());
    std::ranges::transform(number_slots_[into], number_slots_[from],
                           number_slots_[into].begin(), std::plus());
  });
  if (place.ends_step()) average(stream);
}

void DeterministicDataParallel::average(const Stream& stream) {
  point_gradients_at(0);
  stream.synchronize();  // otherwise, the measured time would include the backward pass
  Event begin = stream.record_event();
  const Communicator& comm = group_.comm();
  if (comm.size() > 1) {
    const CallScope scope("all_reduce", "bucket 0: all gradients, in a fixed tree");
    on_host(stream, slots_[0],
            [&](std::span<float> sum) { tree_sum_over_processes<float>(comm, sum); });
  }
  works_.clear();
  works_.push_back(std::make_unique<Work>(begin, begin, stream.record_event()));
  const std::span<double> numbers(number_slots_[0]);
  const auto ranks = ranks_here_ * static_cast<std::size_t>(comm.size());
  scale(stream, slots_[0].numel(), 1.0F / static_cast<float>(ranks), slots_[0].data());
  {
    const CallScope scope("mean of the loss");
    tree_sum_over_processes<double>(comm, numbers);
  }
  for (double& number : numbers) number /= static_cast<double>(ranks);
  copy_bytes(stream, numbers_.data(), numbers.data(), numbers.size_bytes());
  stream.synchronize();
}

std::string cost_of_determinism(const VirtualRanks& ranks, std::size_t batch_size,
                                const Module& model) {
  const std::size_t here = ranks.per_process();
  const std::size_t more = slots_for(here) - 1;
  const double mib =
      static_cast<double>(more * model.count() * sizeof(float)) / (1024.0 * 1024.0);
  return fmt::format(
      "deterministic: {} virtual ranks, {} on each process; matrix products of {} rows instead "
      "of {}; {} more gradient buffer{}, {:.1f} MiB",
      ranks.count(), here, batch_size, here * batch_size, more, more == 1 ? "" : "s", mib);
}

}  // namespace dist
