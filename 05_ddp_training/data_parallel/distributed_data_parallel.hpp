// What this file adds: data parallelism as PyTorch does it. It wraps a model that knows nothing
// about ranks, and adds messages in two places only: construction and the backward pass.
// Builds on: reducer (groups gradients into buckets, whose all-reduces run while backward
// computes other gradients).
#pragma once

#include "04_distributed_sampler/batch_plan.hpp"
#include "05_ddp_training/data_parallel/reducer.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace dist {

// What a training loop calls, whichever kind of data parallelism it uses. The other kinds are
// in sharding/ and deterministic/.
class DataParallel {
 public:
  virtual ~DataParallel() = default;

  Tensor forward(const Tensor& input, const Stream& stream);
  // Called on all ranks, with the gradient of the loss with respect to the logits of a batch,
  // and the batch's place in its step. If the batch ends the step, work queued on `stream`
  // after this call sees every grad as the mean over the ranks. Otherwise the gradients stay on
  // this rank, and nothing is sent (no_sync in PyTorch).
  virtual void backward(const Tensor& grad_logits, const Batch::Place& place,
                        const Stream& stream) = 0;
  // From now on, the end of a step also averages these numbers, in the device's memory.
  void carry(std::span<double> numbers) { numbers_ = numbers; }
  // The collectives of the last step, unless they were taken before. Their times are known once
  // the step's work is done.
  std::vector<std::unique_ptr<Work>> take_works() { return std::exchange(works_, {}); }

  // Called on all ranks: the optimizer of what this rank updates.
  std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                            const Stream& stream);
  // The parameters whose values, and those whose gradients, this rank keeps, and the size of
  // the memory that whole buckets take in turn. Only sharding/ keeps less than the model's.
  struct Kept {
    std::span<const Parameter> values, gradients;
    std::size_t slot_bytes = 0;
  };
  virtual Kept kept() const { return {module_.parameters(), module_.parameters()}; }
  // Called on all ranks, each with what it keeps of a parameter's value, or of a tensor that
  // the optimizer has for it. Returns the whole tensor on rank 0.
  virtual Tensor gather(std::size_t /*parameter*/, const Tensor& mine, const Stream&) const {
    return mine;
  }
  // The opposite, on one rank: copies what this rank keeps of `whole` to `mine`.
  virtual void keep_part(std::size_t /*parameter*/, const Tensor& whole, const Tensor& mine,
                         const Stream& stream) const {
    copy(stream, mine, whole);
    stream.synchronize();
  }

 protected:
  // Called on all ranks. Broadcasts rank 0's parameters. Ranks that drew them with different
  // seeds, or read different files, would otherwise stay different, because equal updates
  // preserve their differences. `module` and `group` must outlive this.
  DataParallel(Module& module, ProcessGroup& group, const Stream& stream);
  // The two parts of make_optimizer: the optimizer, here of the module's parameters, and the
  // norm of all gradients, for one that clips.
  virtual std::unique_ptr<Optimizer> plain_optimizer(const OptimizerOptions& options,
                                                     const Stream& stream) {
    return std::make_unique<Optimizer>(options, module_.parameters(), stream);
  }
  virtual GradientNorm norm(const Stream& stream) const = 0;

  Module& module_;
  ProcessGroup& group_;
  std::span<double> numbers_;
  std::vector<std::unique_ptr<Work>> works_;
};

class DistributedDataParallel : public DataParallel {
 public:
  // Called on all ranks. Replaces every grad of `module` with a view of its bucket.
  DistributedDataParallel(Module& module, ProcessGroup& group, const Stream& stream,
                          BucketCaps caps = {});

  void backward(const Tensor& grad_logits, const Batch::Place& place,
                const Stream& stream) override;

  const std::vector<BucketPlan>& buckets() const { return reducer_.plans(); }

 private:
  GradientNorm norm(const Stream& stream) const override {
    const int chunks = group_.comm().size();
    return {norm_ranges(module_.parameters(), buckets(), chunks), chunks,
            /*is_exchanged=*/false, stream};
  }

  Reducer reducer_;
};

}  // namespace dist
