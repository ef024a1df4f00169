// Look at: the cost of averaging each parameter separately.
#include "05_ddp_training/data_parallel/naive_data_parallel.hpp"

#include "common/watch.hpp"

#include <utility>

namespace dist {

void NaiveDataParallel::backward_and_average(const Tensor& grad_logits, Accumulate accumulate,
                                             const Stream& stream) {
  {
    const CallScope scope("backward");
    module_.backward(grad_logits, stream, accumulate);
  }
  computed_ = stream.record_event();
  works_.clear();
  // Even a bias of ten numbers costs an all-reduce with its full latency.
  for (const Parameter& parameter : module_.parameters()) {
    works_.push_back(group_.all_reduce(parameter.grad, ReduceOp::avg, stream, parameter.name,
                                       std::exchange(numbers_, {})));
    works_.back()->wait(stream);
  }
}

std::function<DataParallel::Durations(const Event&)> NaiveDataParallel::take_durations() {
  return [works = works_](const Event&) {
    Durations sum;
    for (const auto& work : works) sum.total += work->elapsed_ms();
    return sum;
  };
}

}  // namespace dist
