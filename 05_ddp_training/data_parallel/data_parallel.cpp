#include "05_ddp_training/data_parallel/data_parallel.hpp"

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

void DataParallel::backward(const Tensor& grad_logits, const Stream& stream) {
  if (!synchronizes_) {
    backward_without_sending(grad_logits, std::exchange(accumulate_, Accumulate::yes), stream);
    return;
  }
  backward_and_average(grad_logits, std::exchange(accumulate_, Accumulate::no), stream);
  averaged_ = stream.record_event();
}

CommunicationTimes DataParallel::communication_times(const Stream& stream) const {
  group_.synchronize(stream);
  const double total = all_reduces_ms();
  // Without a thread or a stream of its own, communication takes its time from backward.
  return {.total = total,
          .exposed = group_.overlaps() ? elapsed_ms(computed_, averaged_) : total,
          .hideable = hideable_ms()};
}

}  // namespace dist
