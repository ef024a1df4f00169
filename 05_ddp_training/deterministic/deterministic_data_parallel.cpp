#include "05_ddp_training/deterministic/deterministic_data_parallel.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "05_ddp_training/deterministic/tree_sum.hpp"
#include "05_ddp_training/model/kernels.hpp"
#include "common/check.hpp"
#include "common/watch.hpp"

#include <fmt/format.h>

#include <array>
#include <memory>

namespace dist {
namespace {

std::size_t gradient_count(const Mlp& model) {
  std::size_t count = 0;
  for (const Parameter& parameter : model.parameters()) count += parameter.value.numel();
  return count;
}

}  // namespace

DeterministicDataParallel::DeterministicDataParallel(Mlp& module, ProcessGroup& group,
                                                     const Stream& stream,
                                                     const VirtualRanks& ranks)
    : DataParallel(module, group, stream), group_(group), ranks_here_(ranks.per_process()) {
  for (std::size_t slot = 0; slot < slots_for(ranks_here_); ++slot) {
    slots_.emplace_back(Shape{gradient_count(module)}, stream.device());
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

void DeterministicDataParallel::backward(const CrossEntropyLoss& loss, const Stream& stream) {
  backward(loss.grad(), stream, loss.place());
  if (loss.place().ends_step()) average(loss.means(), loss.numbers(), stream);
}

// Here, a part of a step is the batch of one of this process's virtual ranks. Ordinary data
// parallelism would add to the gradients; here, each part is a separate leaf of the tree.
void DeterministicDataParallel::backward(const Tensor& grad_logits, const Stream& stream,
                                         const Batch::Place& place) {
  if (place.parts != ranks_here_) {
    throw Error(
        fmt::format("a step has {} batches on this process, not {}", ranks_here_, place.parts));
  }
  point_gradients_at(slot_of(place.part));
  module_.backward(grad_logits, stream, Accumulate::no);
  add_complete_pairs(place.part, [&](std::size_t into, std::size_t from) {
    add_to(stream, slots_[into].numel(), slots_[from].data(), slots_[into].data());
  });
  if (place.ends_step()) average_gradients(stream);
}

void DeterministicDataParallel::average_gradients(const Stream& stream) {
  point_gradients_at(0);
  stream.synchronize();  // otherwise, the measured time would include the backward pass
  Event begin = stream.record_event();
  const Communicator& comm = group_.comm();
  if (comm.size() > 1) {
    const CallScope scope("all_reduce", "bucket 0: all gradients, in a fixed tree");
    on_host(stream, slots_[0],
            [&](std::span<float> sum) { tree_sum_over_processes<float>(comm, sum); });
  }
  sent_.emplace().works.push_back(
      std::make_shared<Work>(std::move(begin), stream.record_event()));
  const auto ranks = ranks_here_ * static_cast<std::size_t>(comm.size());
  scale(stream, slots_[0].numel(), 1.0F / static_cast<float>(ranks), slots_[0].data());
}

void DeterministicDataParallel::average(std::span<const double> means,
                                        std::span<double> numbers, const Stream& stream) {
  if (numbers.empty()) return;
  std::vector<double> mine(means.size());
  std::array<double, 2> all{};
  copy_bytes(stream, mine.data(), means.data(), means.size_bytes());
  copy_bytes(stream, all.data(), numbers.data(), numbers.size_bytes());
  stream.synchronize();
  all[0] = tree_mean(group_.comm(), mine);
  all[1] = tree_mean(group_.comm(), std::array{all[1]});
  copy_bytes(stream, numbers.data(), all.data(), numbers.size_bytes());
  stream.synchronize();
}

std::string cost_of_determinism(const VirtualRanks& ranks, std::size_t batch_size,
                                const Mlp& model) {
  const std::size_t here = ranks.per_process();
  const std::size_t more = slots_for(here) - 1;
  const double mib =
      static_cast<double>(more * gradient_count(model) * sizeof(float)) / (1024.0 * 1024.0);
  return fmt::format(
      "deterministic: {} virtual ranks, {} on each process; matrix products of {} rows instead "
      "of {}; {} more gradient buffer{}, {:.1f} MiB",
      ranks.count(), here, batch_size, here * batch_size, more, more == 1 ? "" : "s", mib);
}

}  // namespace dist
