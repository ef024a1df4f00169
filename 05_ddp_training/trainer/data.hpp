// The data that a run trains and tests on, as chosen by its flags.
#pragma once

#include "04_distributed_sampler/dataset.hpp"
#include "05_ddp_training/trainer/model_plan.hpp"
#include "05_ddp_training/trainer/options.hpp"
#include "common/random.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace dist {

class TrainingData {
 public:
  // Reads or renders the data set that --dataset names, and fits `model` to it. Checks the
  // batch size and the number of ranks (`processes` times `ranks_per_process`), too. Throws
  // Error naming the flag or the file.
  void load(const Options& options, ModelPlan& model, const CommandLine& flags, int processes,
            std::size_t ranks_per_process);
  // Draws the synthetic set; does nothing for other data sets. Call this function after making
  // the model, because the PyTorch program draws the model first, from the same generator.
  void draw(const Options& options, std::size_t features, Generator& generator);

  // Hashes named "training data" and "test data", for comparison with other ranks and
  // other runs: name, size and a hash of all numbers, such as "digits, 8000 samples, 1f2e...".
  // The synthetic set is described by its flags instead. Reads all the data.
  std::vector<CommandLine::Value> hashes(const Options& options) const;

  // The files of --data that were read.
  const std::vector<std::string>& files() const { return files_; }
  std::size_t size() const { return size_; }  // of the training set, even before it is drawn
  const Dataset& train() const { return *train_; }
  const Dataset* test() const { return test_.get(); }  // null for the synthetic set

 private:
  void load_sets(const Options& options);
  void load_idx(const Options& options);

  std::vector<std::string> files_;
  std::unique_ptr<Dataset> whole_;  // set only if train_ and test_ are parts of it
  std::unique_ptr<Dataset> train_;
  std::unique_ptr<Dataset> test_;
  std::size_t size_ = 0;
};

}  // namespace dist
