#include "05_ddp_training/data_parallel/data_parallel.hpp"

#include "common/watch.hpp"

#include <memory>
#include <utility>

namespace dist {

DataParallel::DataParallel(Mlp& module, ProcessGroup& group, const Stream& stream)
    : module_(module), group_(group) {
  for (const Parameter& parameter : module.parameters()) {
    group.broadcast(parameter.value, 0, stream)->wait(stream);
  }
  computed_ = stream.record_event();
  averaged_ = stream.record_event();
}

bool DataParallel::backward(const CrossEntropyLoss& loss, const Stream& stream) {
  numbers_ = loss.numbers();
  means_ = loss.means();
  return backward(loss.grad(), stream, loss.place());
}

bool DataParallel::backward(const Tensor& grad_logits, const Stream& stream,
                            const Batch::Place& place) {
  const Accumulate accumulate = place.part == 0 ? Accumulate::no : Accumulate::yes;
  if (!place.ends_step()) {
    backward_of_part(grad_logits, accumulate, stream);
    return false;
  }
  // While messages are counted, the numbers do not travel with the gradients.
  const auto numbers = counts_ ? std::exchange(numbers_, {}) : std::span<double>();
  count([&] { backward_and_average(grad_logits, accumulate, stream); });
  if (counts_) numbers_ = numbers;
  if (!numbers_.empty()) average_numbers(stream);
  numbers_ = {};
  averaged_ = stream.record_event();
  ended_ = true;
  return true;
}

void DataParallel::count(const std::function<void()>& body) {
  if (!counts_) return body();
  const auto traffic = count_traffic(group_.comm(), body);
  // No messages were counted: shared memory, MPI's collectives or NCCL carried the gradients.
  if (!traffic || traffic->messages_per_rank == 0) return;
  bytes_sent_ = bytes_sent_.value_or(0) + traffic->bytes_per_rank;
}

void DataParallel::average_numbers(const Stream& stream) {
  const Tensor nothing({0}, stream.device());
  group_.all_reduce(nothing, ReduceOp::avg, stream, "", numbers_)->wait(stream);
}

StepOutcome DataParallel::outcome() {
  const bool ended = std::exchange(ended_, false);
  if (ended) counts_ = false;
  StepOutcome outcome{
      .wait = [&group = group_](const Event& event) { group.synchronize(event); },
      .times = {},
      .bytes_sent = ended ? std::exchange(bytes_sent_, std::nullopt) : std::nullopt};
  if (ended) outcome.times = take_times();
  return outcome;
}

std::function<CommunicationTimes()> DataParallel::take_times() {
  struct Marks {
    Event computed, averaged;
  };
  const auto marks = std::make_shared<Marks>(std::move(computed_), std::move(averaged_));
  return [marks, durations = take_durations(), overlaps = group_.overlaps()] {
    const auto [total, hideable] = durations(marks->computed);
    // Communication without its own thread or stream runs within backward and lengthens it.
    return CommunicationTimes{
        .total = total,
        .exposed = overlaps ? elapsed_ms(marks->computed, marks->averaged) : total,
        .hideable = hideable};
  };
}

CommunicationTimes DataParallel::communication_times(const Stream& stream) {
  group_.synchronize(stream.record_event());
  return take_times()();
}

}  // namespace dist
