// What both ways of data parallelism have in common: they wrap a model that knows nothing of
// ranks, and add messages to its construction and to its backward pass, nothing else.
#pragma once

#include "05_ddp_training/mlp.hpp"
#include "05_ddp_training/process_group/process_group.hpp"

#include <memory>
#include <string>

namespace dist {

class DataParallel {
 public:
  virtual ~DataParallel() = default;

  Tensor forward(const Tensor& input, const Stream& stream) {
    return module_.forward(input, stream);
  }
  // Called on all ranks. Afterwards every grad is the mean over the ranks, for work that is
  // queued on `stream` from now on.
  virtual void backward(const Tensor& grad_logits, const Stream& stream) = 0;

  // The time of the last backward's communication that nothing else hid, in milliseconds; waits
  // for it to end.
  double communication_ms(const Stream& stream) const {
    group_.synchronize(stream);
    return elapsed_ms(computed_, averaged_);
  }

 protected:
  // Called on all ranks: rank 0's parameters become everybody's. With one --seed on all ranks
  // they are equal already; with a seed per rank, or a file that only rank 0 has read, each
  // rank would train a model of its own without this: equal gradients keep unequal models
  // unequal.
  DataParallel(Mlp& module, ProcessGroup& group, const Stream& stream)
      : module_(module), group_(group) {
    for (const Parameter& parameter : module.parameters()) {
      group.broadcast(parameter.value, 0, stream)->wait(stream);
    }
    computed_ = stream.record_event();
    averaged_ = stream.record_event();
  }

  Mlp& module_;
  ProcessGroup& group_;
  Event computed_;
  Event averaged_;
};

// Called on all ranks. `name` is ddp (DistributedDataParallel) or naive (NaiveDataParallel).
std::unique_ptr<DataParallel> make_data_parallel(const std::string& name, Mlp& module,
                                                 ProcessGroup& group, const Stream& stream);

}  // namespace dist
