// Which data a run trains and tests on, by its flags.
#pragma once

#include "02_broadcast/random.hpp"
#include "04_distributed_sampler/dataset.hpp"
#include "05_ddp_training/trainer/training_options.hpp"

#include <memory>
#include <vector>

namespace dist {

class TrainingData {
 public:
  // Reads or renders what --dataset names, fits --layers to it if the reader gave none, and
  // checks what must fit: widths, batch size, and the ranks against the number of samples: each
  // of `processes` plays `ranks_per_process`. Throws Error naming the flag or the file. The
  // synthetic set is not drawn yet.
  void load(TrainingOptions& options, int processes, std::size_t ranks_per_process = 1);

  // The sets by their content, for comparing with other ranks' and other runs': name, size and
  // a hash of every number, such as "digits, 8000 samples, 1f2e...". The synthetic set is its
  // flags. Called "training data" and "test data". Reads all of both.
  std::vector<CommandLine::Value> fingerprints(const TrainingOptions& options) const;

  // How many samples there are to train on, also before they are drawn.
  std::size_t size(const TrainingOptions& options) const {
    return train_ ? train_->size() : options.samples;
  }

  // Draws the synthetic set; does nothing for the others. PyTorch's program draws the model
  // first, from the same generator, so this comes after the model.
  void draw(const TrainingOptions& options, Generator& generator);

  const Dataset& train() const { return *train_; }
  const Dataset* test() const { return test_.get(); }  // null for the synthetic set

 private:
  void load_digits();
  void load_idx(const TrainingOptions& options);

  std::unique_ptr<Dataset> whole_;  // what train_ and test_ are parts of, if they are
  std::unique_ptr<Dataset> train_;
  std::unique_ptr<Dataset> test_;
};

}  // namespace dist
