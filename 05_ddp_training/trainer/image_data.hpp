// What this file adds: the images that ddp_training learns, as chosen by --dataset.
#pragma once

#include "05_ddp_training/trainer/data.hpp"

namespace dist {

class ImageData : public TrainingData {
 public:
  // Draws the synthetic set.
  void draw(const Options& options, std::size_t features, Generator& generator) override;

  std::string name(const Options& options) const override {
    return kDatasets.of(options.dataset);
  }
  std::string flag() const override { return "--data"; }
  std::string set_flag() const override { return "--dataset"; }
  // The synthetic set is described by its flags. Reads all other data.
  std::vector<CommandLine::Value> hashes(const Options& options) const override;

 private:
  void load_sets(const Options& options) override;
  void load_idx(const Options& options);
};

}  // namespace dist
