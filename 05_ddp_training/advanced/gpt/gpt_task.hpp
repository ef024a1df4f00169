// What this file adds: the task of gpt_training: its flags, and what they leave fixed.
#pragma once

#include "05_ddp_training/advanced/gpt/gpt_plan.hpp"
#include "05_ddp_training/advanced/gpt/text_data.hpp"
#include "05_ddp_training/optimizer/lr_schedule.hpp"
#include "05_ddp_training/trainer/task.hpp"
#include "common/atomic_file.hpp"

#include <algorithm>
#include <string>

namespace dist {

class GptTask : public Task {
 public:
  std::string program() const override { return "gpt_training"; }
  std::string description() const override {
    return "N processes train a GPT, which then writes some lines.";
  }
  GptPlan& model() override { return model_; }
  TextData& data() override { return data_; }

  void declare(Options& options, CommandLine& flags, CommonOptions& common, int /*ranks*/,
               bool writes) override {
    options.data = DIST_GPT_TEXT;
    options.max_steps = 2200;
    options.epochs = kMany;  // only the number of steps ends the run
    options.batch_size = 8;
    options.loader_drop_last = true;
    options.optimizer = {.kind = OptimizerKind::adamw,
                         .lr = 0.01,
                         .weight_decay = 0.1,
                         .betas = {0.9, 0.99},
                         .clip_norm = 1};
    options.graph = false;  // a captured step would not see that a larger batch moves tensors
    options.line_every = kLine;

    CommandLine rounding = flags.only(Effect::rounding), neutral = flags.only(Effect::nothing);
    neutral.number("--max-steps", options.max_steps, 1, kMany, "steps of the optimizer");
    neutral.number("--batch-size", options.batch_size, 1, 1 << 16, "windows per rank");
    flags.number("--lr", options.optimizer.lr, 0, 1e6, "learning rate after the warm-up");
    neutral.text("--text", options.data, "file to learn from");
    rounding.choice("--shard", options.shard, {"none", "optimizer"},
                    "what each rank keeps only a part of");
    neutral.text("--checkpoint", options.checkpoint,
                 "safetensors file to write at the end, and every 200 steps");
    neutral.flag("--resume", options.resume, "continue the run that wrote --checkpoint");
    neutral.text("--metrics", options.metrics, "file of JSON lines, one per step");
    common.declare(flags);
    flags.check([&options, writes] {
      check_usage(!options.resume || !options.checkpoint.empty(),
                  "--resume: needs --checkpoint FILE");
      if (!options.checkpoint.empty()) options.checkpoint_every = kLine;
      if (writes) claim("--checkpoint", options.checkpoint);
      if (writes) claim("--metrics", options.metrics);
    });
  }

  double lr_at(const Options& options, int /*ranks*/, std::size_t step) const override {
    return cosine(options).at(step);
  }
  std::string schedule(const Options& options) const override { return cosine(options).name(); }

 private:
  static constexpr std::size_t kMany = 1 << 30, kWarmUp = 100, kLine = 200;  // steps
  static CosineSchedule cosine(const Options& options) {
    return {.peak = options.optimizer.lr,
            .floor = options.optimizer.lr / 10,
            .warmup_steps = kWarmUp,
            .total_steps = std::max(options.max_steps, kWarmUp + 1)};
  }

  GptPlan model_;
  TextData data_{model_.shape().context};
};

}  // namespace dist
