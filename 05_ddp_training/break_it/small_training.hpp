// What this lesson's experiments share: a training job of a few milliseconds, made of the
// lesson's own parts. There is no training loop here: each experiment has its own, because that
// is where it breaks something.
#pragma once

#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/idx_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "common/program.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dist {

struct SmallJob {
  std::vector<std::size_t> layers{784, 24, 10};
  OptimizerOptions optimizer{.name = "sgd", .lr = 0.2};
  std::size_t batch_size = 16;  // per rank
};
// The same job with an optimizer that learns quickly enough for kSmallSteps.
inline const SmallJob kQuickJob{.optimizer = {.name = "adam", .lr = 0.005}};
// This many steps make up a few epochs, however many ranks there are.
inline constexpr std::size_t kSmallSteps = 48;

// The data set. Each rank draws all of it, from --seed.
IdxDataset small_digits(const Program& program, std::size_t samples = 1024);

// One rank's model, its optimizer, and its share of the data. All ranks start with the same
// parameters, drawn from --seed.
class SmallTraining {
 public:
  // `program` and `digits` must outlive this object.
  SmallTraining(const Program& program, const IdxDataset& digits, const SmallJob& job = {});
  SmallTraining(const SmallTraining&) = delete;  // its parts point to each other
  SmallTraining& operator=(const SmallTraining&) = delete;

  // The same job on some of the ranks, in one process alone, and in one process whose batches
  // combine those of all ranks.
  static SmallTraining among(const Communicator& group, const Program& program,
                             const IdxDataset& digits, const SmallJob& job);
  static SmallTraining alone(const Program& program, const IdxDataset& digits,
                             const SmallJob& job);
  static SmallTraining twin(const Program& program, const IdxDataset& digits,
                            SmallJob job = {});

  Mlp& model() { return model_; }
  Optimizer& optimizer() { return *optimizer_; }
  double lr() const { return job_.optimizer.lr; }
  std::size_t steps_per_epoch() const { return loader_.batches(sampler_.num_samples()); }

  // Runs the model and the loss on the next batch. A new epoch starts when one ends.
  void forward();
  // The mean loss over that batch. Waits for the result.
  double loss() const { return loss_.value(program_.stream); }
  // The gradient with which backward starts.
  const Tensor& grad() const { return loss_.grad(); }
  // The mean loss over the whole data set.
  double loss_on_all();

 private:
  SmallTraining(const Program& program, const IdxDataset& digits, const SmallJob& job,
                int ranks, int rank);

  const Program& program_;
  const IdxDataset& digits_;
  SmallJob job_;
  Generator generator_;
  Mlp model_;
  std::unique_ptr<Optimizer> optimizer_;
  DistributedSampler sampler_;
  DataLoader loader_;
  std::size_t epoch_ = 0;
  std::optional<DataLoader::Range> batches_;  // of this epoch
  std::size_t batch_ = 0;                     // index of the next batch
  CrossEntropyLoss loss_;
};

// Called on all ranks. Returns the process group that the trainer would choose, but without
// overlap.
std::unique_ptr<ProcessGroup> small_group(const Program& program);

// The largest difference between two models' parameters on this rank; infinite if any is NaN.
double largest_difference(const Mlp& a, const Mlp& b, const Stream& stream);

// Adds normal noise with standard deviation `size` to every number.
void add_noise(const Tensor& tensor, double size, Generator& generator, const Stream& stream);

// When the replicas diverged, in which parameter and on which rank. All ranks agree.
struct Parting {
  std::size_t step = 0;    // the first step after which they differed, counted from 1; 0: never
  std::string difference;  // "2.bias of rank 3"

  // Called on all ranks after every step.
  void look(const Program& program, const Mlp& model, std::size_t after_step);
  // "parted after step 1, first in 0.weight of rank 3", or "are equal, bit for bit".
  std::string text() const;
};

}  // namespace dist
