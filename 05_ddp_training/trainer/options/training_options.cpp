#include "05_ddp_training/trainer/options/training_options.hpp"

#include "common/atomic_file.hpp"
#include "common/check.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace dist {

void TrainingOptions::declare(CommandLine& command_line, bool writes) {
  command_line.choice("--dataset", dataset, {"digits", "synthetic", "idx"}, "training data");
  command_line.text("--data", data, "folder of IDX files (MNIST's format), for --dataset idx");
  command_line.list("--layers", layers, "widths of the layers; ReLU between them");
  command_line.number<std::size_t>("--batch-size", batch_size, 1, 1U << 24, "samples per rank");
  command_line.number<std::size_t>("--epochs", epochs, 1, 1U << 30, "passes over the data");
  optimizer.declare(command_line);
  command_line.text("--checkpoint", checkpoint, "safetensors file to write at the end");
  common.declare(command_line);

  command_line.advanced();
  command_line.number<std::size_t>("--samples", samples, 1, 1U << 30,
                                   "number of samples of --dataset synthetic");
  command_line.number<std::size_t>("--classes", classes, 1, 1U << 24,
                                   "number of classes of --dataset synthetic");
  command_line.number("--test-fraction", test_fraction, 0.0, 0.9,
                      "fraction of a single pair of IDX files that is used for testing");
  command_line.number<std::size_t>("--max-steps", max_steps, 1, 1U << 30,
                                   "stop after this many steps");
  optimizer.declare_advanced(command_line);
  command_line.flag("--shuffle,!--no-shuffle", sampler.shuffle, "random order (the default)");
  command_line.number<std::uint64_t>(
      "--sampler-seed", sampler.seed, 0, 1ULL << 62,
      "seed of the sample order; separate from --seed, as in PyTorch");
  command_line.flag("--drop-last", sampler.drop_last,
                    "drop the samples left over when dividing among the ranks");
  command_line.flag("--loader-drop-last", loader_drop_last, "drop a short last batch");
  command_line.flag("--graph,!--no-graph", graph,
                    "on a GPU, record a step once and replay it (the default)");
  command_line.choice("--precision", precision, {"fp32", "bf16"},
                      "of the matrix products; all else stays fp32");
  command_line.number<std::size_t>("--checkpoint-every", checkpoint_every, 1, 1U << 30,
                                   "steps between checkpoints");
  command_line.text("--metrics", metrics, "file of JSON lines, one per step");

  command_line.check([this, &command_line, writes] {
    layers_given = command_line.given("--layers");
    if (layers.size() < 2) throw Error("--layers: needs at least an input and an output width");
    if ((dataset == "idx") != command_line.given("--data")) {
      throw Error("--data: must be given together with --dataset idx");
    }
    if (command_line.given("--checkpoint-every") && checkpoint.empty()) {
      throw Error("--checkpoint-every: needs --checkpoint FILE");
    }
    if (writes) {
      // Find out now rather than after hours of training.
      std::vector<OutputFile> files;
      for (const auto& [flag, text] : command_line.values()) {
        const bool output = flag == "--checkpoint" || flag == "--metrics" || flag == "--trace";
        if (output) files.push_back({flag, text});
      }
      require_writable(files);
    }
    // If --max-steps is given without --epochs, only the number of steps ends the run.
    if (max_steps > 0 && !command_line.given("--epochs")) epochs = max_steps;
  });
}

std::size_t TrainingOptions::total_steps(std::size_t done, std::size_t epoch, std::size_t left,
                                         std::size_t per_epoch) const {
  // A run that has already finished all its epochs or steps takes no more steps.
  const std::size_t all =
      epoch < epochs ? done + left + (epochs - epoch - 1) * per_epoch : done;
  return max_steps == 0 ? all : std::max(done, std::min(all, max_steps));
}

}  // namespace dist
