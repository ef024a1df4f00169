// Look at: [4] and [6]. The model knows nothing else about data parallelism.
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"

#include "common/watch.hpp"

namespace dist {

DataParallel::DataParallel(Module& module, ProcessGroup& group, const Stream& stream)
    : module_(module), group_(group) {
  // [4] All replicas start with rank 0's parameters.
  for (const Parameter& parameter : module.parameters()) {
    group.broadcast(parameter.value, /*root=*/0, stream)->wait(stream);
  }
}

Tensor DataParallel::forward(const Tensor& input, const Stream& stream) {
  const CallScope scope("forward");  // a row of the trace
  return module_.forward(input, stream);
}

std::unique_ptr<Optimizer> DataParallel::make_optimizer(const OptimizerOptions& options,
                                                        const Stream& stream) {
  auto made = plain_optimizer(options, stream);
  if (options.clip_norm > 0) made->clip(norm(stream));
  return made;
}

DistributedDataParallel::DistributedDataParallel(Module& module, ProcessGroup& group,
                                                 const Stream& stream, BucketCaps caps)
    : DataParallel(module, group, stream),
      reducer_(module.parameters(), plan_buckets(module.parameters(), caps), group) {}

void DistributedDataParallel::backward(const Tensor& grad_logits, const Batch::Place& place,
                                       const Stream& stream) {
  // The later batches of a step add to the gradients of the first one.
  const Accumulate accumulate = place.part == 0 ? Accumulate::no : Accumulate::yes;
  if (!place.ends_step()) {  // no_sync
    return module_.backward(grad_logits, stream, accumulate);
  }
  reducer_.carry(numbers_);
  {
    const CallScope scope("backward");
    // [6] As soon as a gradient is ready, its bucket may be complete, and is then sent.
    module_.backward(grad_logits, stream, accumulate,
                     [&](std::size_t parameter) { reducer_.mark_ready(parameter, stream); });
  }
  const CallScope scope("wait for all-reduces");
  works_ = reducer_.finalize(stream);
}

}  // namespace dist
