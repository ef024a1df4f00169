#include "05_ddp_training/trainer/data.hpp"

#include "04_distributed_sampler/distributed_sampler.hpp"
#include "common/physical_memory.hpp"

#include <algorithm>
#include <string>

namespace dist {

// Each of the `processes` processes simulates `here` ranks, which share its batch.
static void check_counts(const Options& options, const std::string& flag, std::size_t samples,
                         int processes, std::size_t here) {
  const int ranks = processes * static_cast<int>(here);
  const std::size_t batch_size = options.batch_size / here;
  check_usage(samples >= static_cast<std::size_t>(ranks),
              "{}: {} samples are too few for {}{} ranks", flag, samples, ranks,
              here > 1 ? " virtual" : "");
  check_usage(batch_size <= samples,
              "--batch-size: {} per rank, but the whole training set has {} samples",
              batch_size, samples);
  const std::size_t mine = DistributedSampler(samples, ranks, 0, options.sampler).num_samples();
  check_usage(!options.loader_drop_last || mine >= batch_size,
              "--loader-drop-last: leaves no batch, because a rank has only {} samples", mine);
}

// An ignored label of PyTorch's, such as 255, would be a class like any other.
static void check_labels(const char* set, const Dataset& data, const ModelPlan& model) {
  const std::size_t width = model.outputs();
  if (data.classes() <= width) return;
  std::vector<float> row(data.features());
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::int32_t label = data.get(i, row);
    check_usage(static_cast<std::size_t>(label) < width,
                "{}: the output width is {}, but the label of {} sample {} is {}", model.flag(),
                width, set, i, label);
  }
}

void TrainingData::load(const Options& options, ModelPlan& model, const CommandLine& flags,
                        int processes, std::size_t ranks_per_process) {
  try {
    load_sets(options);
    // Only the files that are listed are safe from the run's outputs (replaces_start).
    if (!options.data.empty() && files_.empty()) {
      throw Error("the files that were read are not listed in TrainingData::files");
    }
  } catch (const Error& error) {  // only files can fail
    throw Error(fmt::format("{}: {}", flag(), error.what()));
  }
  size_ = train_ ? train_->size() : options.samples;
  const std::size_t features = train_ ? train_->features() : model.inputs();
  const std::size_t classes =
      std::max(train_ ? train_->classes() : options.classes, test_ ? test_->classes() : 0);
  model.fit(flags, features, classes);
  // As in PyTorch, a model may know more classes than this data has.
  const std::size_t width = model.outputs();
  const std::size_t smallest = train_ ? 0 : classes;  // the synthetic set is not drawn yet
  check_usage(width >= smallest, "{}: the output width is {}, but --classes is {}",
              model.flag(), width, classes);
  if (train_) check_labels("training", *train_, model);
  if (test_) check_labels("test", *test_, model);
  const auto numbers = static_cast<double>(size_) * static_cast<double>(features + 1);
  if (!train_) require_memory("--samples", numbers * sizeof(float), "the samples");
  check_counts(options, set_flag(), size_, processes, ranks_per_process);
}

}  // namespace dist
