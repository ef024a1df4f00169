// Look at: what it costs to ask for the average of each parameter alone.
#include "05_ddp_training/naive_data_parallel.hpp"

namespace dist {

void NaiveDataParallel::backward(const Tensor& grad_logits, const Stream& stream) {
  module_.backward(grad_logits, stream);
  computed_ = stream.record_event();
  // A bias of ten numbers costs a whole message, and its latency, like a weight of a million.
  for (const Parameter& parameter : module_.parameters()) {
    group_.all_reduce(parameter.grad, ReduceOp::avg, stream)->wait(stream);
  }
  averaged_ = stream.record_event();
}

}  // namespace dist
