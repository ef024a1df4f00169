// Look at: the constructor. After it, the model's own backward writes into the message.
#include "05_ddp_training/distributed_data_parallel.hpp"

namespace dist {

DistributedDataParallel::DistributedDataParallel(Mlp& module, ProcessGroup& group,
                                                 const Stream& stream)
    : DataParallel(module, group, stream) {
  std::size_t total = 0;
  for (const Parameter& parameter : module.parameters()) total += parameter.value.numel();
  bucket_ = group.allocate({total});
  std::size_t begin = 0;
  for (Parameter& parameter : module.parameters()) {
    const std::size_t count = parameter.value.numel();
    parameter.grad = bucket_.narrow(begin, count).view(parameter.value.shape());
    begin += count;
  }
}

void DistributedDataParallel::backward(const Tensor& grad_logits, const Stream& stream) {
  module_.backward(grad_logits, stream);
  computed_ = stream.record_event();
  group_.all_reduce(bucket_, ReduceOp::avg, stream)->wait(stream);
  averaged_ = stream.record_event();
}

}  // namespace dist
