// What both ways of data parallelism have in common: they wrap a model that knows nothing of
// ranks, and add messages to its construction and to its backward pass, nothing else.
#pragma once

#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "common/watch.hpp"

namespace dist {

// Of the last backward, in milliseconds.
struct CommunicationTimes {
  double total = 0;     // what the all-reduces took, one after the other
  double exposed = 0;   // the part during which nothing was computed
  double hideable = 0;  // the part that backward could have hidden (overlap_bound.hpp)
};

class DataParallel {
 public:
  virtual ~DataParallel() = default;

  Tensor forward(const Tensor& input, const Stream& stream) {
    const CallScope scope("forward");  // a row of the trace
    return module_.forward(input, stream);
  }
  // Called on all ranks. Afterwards every grad is the mean over the ranks, for work that is
  // queued on `stream` from now on; with what no_sync() has collected before, if anything.
  void backward(const Tensor& grad_logits, const Stream& stream);

  // While this object lives, backward adds to this rank's gradients and sends nothing: for a
  // batch in several parts, of which only the last one communicates.
  class NoSync {
   public:
    ~NoSync() { parallel_.synchronizes_ = true; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    friend class DataParallel;
    explicit NoSync(DataParallel& parallel) : parallel_(parallel) {
      parallel_.synchronizes_ = false;
    }
    DataParallel& parallel_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  // Waits for the last backward's communication to end.
  CommunicationTimes communication_times(const Stream& stream) const;

 protected:
  // Called on all ranks: rank 0's parameters become everybody's. With one --seed on all ranks
  // they are equal already; with a seed per rank, or a file that only rank 0 has read, each
  // rank would train a model of its own without this: equal gradients keep unequal models
  // unequal.
  DataParallel(Mlp& module, ProcessGroup& group, const Stream& stream);

  // Backward under no_sync().
  virtual void backward_without_sending(const Tensor& grad_logits, Accumulate accumulate,
                                        const Stream& stream) {
    module_.backward(grad_logits, stream, accumulate);
  }
  // Backward and average; sets computed_ when backward's own work has been queued.
  virtual void backward_and_average(const Tensor& grad_logits, Accumulate accumulate,
                                    const Stream& stream) = 0;
  virtual double all_reduces_ms() const = 0;
  // What starts only after backward cannot be hidden behind it.
  virtual double hideable_ms() const { return 0; }

  Mlp& module_;
  ProcessGroup& group_;
  Event computed_;

 private:
  Event averaged_;
  bool synchronizes_ = true;
  Accumulate accumulate_ = Accumulate::no;  // of the next backward
};

}  // namespace dist
