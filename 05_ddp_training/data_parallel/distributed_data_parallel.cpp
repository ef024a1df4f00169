// Look at: the hook. Backward knows nothing else about data parallelism.
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"

#include "05_ddp_training/data_parallel/naive_data_parallel.hpp"
#include "common/watch.hpp"

namespace dist {

DistributedDataParallel::DistributedDataParallel(Mlp& module, ProcessGroup& group,
                                                 const Stream& stream, BucketCaps caps,
                                                 ReduceOp op)
    : DataParallel(module, group, stream), reducer_(module.parameters(), group, caps, op) {}

void DistributedDataParallel::backward_and_average(const Tensor& grad_logits,
                                                   Accumulate accumulate,
                                                   const Stream& stream) {
  reducer_.carry(std::exchange(numbers_, {}));
  {
    const CallScope scope("backward");
    module_.backward(grad_logits, stream, accumulate, [&](std::size_t parameter) {
      if (observer_) observer_(parameter);
      reducer_.mark_ready(parameter, stream);
    });
  }
  computed_ = stream.record_event();
  const CallScope scope("wait for all-reduces");
  reducer_.finalize(stream);
}

std::function<DataParallel::Durations(const Event&)> DistributedDataParallel::take_durations() {
  const auto step = std::make_shared<ReducedStep>(reducer_.take_step());
  return [step](const Event& computed) {
    return Durations{.total = step->communication_ms(),
                     .hideable = step->hideable_ms(computed)};
  };
}

std::unique_ptr<DataParallel> make_data_parallel(const std::string& name, Mlp& module,
                                                 ProcessGroup& group, const Stream& stream,
                                                 BucketCaps caps, ReduceOp op) {
  if (name == "naive") return std::make_unique<NaiveDataParallel>(module, group, stream);
  return std::make_unique<DistributedDataParallel>(module, group, stream, caps, op);
}

}  // namespace dist
