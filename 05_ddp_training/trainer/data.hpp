// What this file adds: the data that a run trains and tests on.
#pragma once

#include "04_distributed_sampler/dataset.hpp"
#include "05_ddp_training/trainer/model_plan.hpp"
#include "05_ddp_training/trainer/options.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace dist {

class TrainingData {
 public:
  virtual ~TrainingData() = default;

  // Reads or renders the data, and fits `model` to it. Checks the batch size and the number of
  // ranks (`processes` times `ranks_per_process`), too. Throws Error naming the flag or the
  // file.
  void load(const Options& options, ModelPlan& model, const CommandLine& flags, int processes,
            std::size_t ranks_per_process);
  // Draws data that is not read; else, does nothing. Call this function after making the model,
  // because the PyTorch program draws the model first, from the same generator.
  virtual void draw(const Options&, std::size_t /*features*/, Generator&) {}

  virtual std::string name(const Options& options) const = 0;  // for display: "digits"
  // The flag that names the files, and the one to blame if there are too few samples.
  virtual std::string flag() const = 0;
  virtual std::string set_flag() const = 0;
  // Hashes named "training data" and "test data", for comparison with other ranks and
  // other runs: name, size and a hash of all numbers, such as "digits, 8000 samples, 1f2e...".
  virtual std::vector<CommandLine::Value> hashes(const Options& options) const = 0;

  // The files that were read.
  const std::vector<std::string>& files() const { return files_; }
  std::size_t size() const { return size_; }  // of the training set, even before it is drawn
  const Dataset& train() const { return *train_; }
  const Dataset* test() const { return test_.get(); }  // null if there is none

 protected:
  // Sets train_, unless it is drawn later, and, if there is one, test_. Lists in files_ what it
  // has read, so that no flag can overwrite it. Throws Error naming the file.
  virtual void load_sets(const Options& options) = 0;

  std::vector<std::string> files_;
  std::unique_ptr<Dataset> whole_;  // set only if train_ and test_ are parts of it
  std::unique_ptr<Dataset> train_;
  std::unique_ptr<Dataset> test_;

 private:
  std::size_t size_ = 0;
};

}  // namespace dist
