// What this file adds: the task of ddp_training: an Mlp learns images.
#pragma once

#include "05_ddp_training/trainer/image_data.hpp"
#include "05_ddp_training/trainer/mlp_plan.hpp"
#include "05_ddp_training/trainer/task.hpp"

namespace dist {

class MlpTask : public Task {
 public:
  std::string program() const override { return "ddp_training"; }
  std::string description() const override { return "Lesson 5: N processes train one model."; }
  ModelPlan& model() override { return model_; }
  TrainingData& data() override { return data_; }

  void declare(Options& options, CommandLine& flags, CommonOptions& common, int ranks,
               bool writes) override;
  double lr_at(const Options& options, int ranks, std::size_t step) const override;
  std::string schedule(const Options&) const override { return ""; }

 private:
  MlpPlan model_;
  ImageData data_;
};

}  // namespace dist
