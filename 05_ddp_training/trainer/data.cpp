#include "05_ddp_training/trainer/data.hpp"

#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "04_distributed_sampler/datasets/idx_dataset.hpp"
#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "common/hash.hpp"
#include "common/physical_memory.hpp"

#include <algorithm>
#include <string>

namespace dist {

static std::unique_ptr<Dataset> read(const IdxPair& pair) {
  return std::make_unique<IdxDataset>(read_idx_dataset(pair.images, pair.labels));
}

// Each of the `processes` processes simulates `here` ranks, which share its batch.
static void check_counts(const Options& options, std::size_t samples, int processes,
                         std::size_t here) {
  const int ranks = processes * static_cast<int>(here);
  const std::size_t batch_size = options.batch_size / here;
  check_usage(samples >= static_cast<std::size_t>(ranks),
              "--dataset: {} samples are too few for {}{} ranks", samples, ranks,
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

static std::string describe(DatasetKind kind, const Dataset& data) {
  Hash hash;
  std::vector<float> row(data.features());
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::int32_t label = data.get(i, row);
    hash.add(row.data(), row.size() * sizeof(float));
    hash.add(&label, sizeof label);
  }
  return fmt::format("{}, {} samples, {:016x}", kDatasets.of(kind), data.size(), hash.value());
}

void TrainingData::load_idx(const Options& options) {
  const std::vector<IdxPair> pairs = find_idx_pairs(options.data);
  for (const auto& [images, labels] : pairs) files_.insert(files_.end(), {images, labels});
  train_ = read(pairs.front());
  if (pairs.size() == 2) {
    test_ = read(pairs.back());
    check_usage(test_->features() == train_->features(), "{} features in {}, {} in {}",
                train_->features(), pairs[0].images, test_->features(), pairs[1].images);
    return;
  }
  whole_ = std::move(train_);
  const auto held_back =
      static_cast<std::size_t>(static_cast<double>(whole_->size()) * options.test_fraction);
  const std::size_t kept = whole_->size() - held_back;
  train_ = std::make_unique<Subset>(*whole_, 0, kept);
  if (held_back > 0) test_ = std::make_unique<Subset>(*whole_, kept, held_back);
}

void TrainingData::load_sets(const Options& options) {
  switch (options.dataset) {
    case DatasetKind::synthetic: return;  // draw() makes it
    case DatasetKind::digits:
      train_ = std::make_unique<IdxDataset>(training_digits());
      test_ = std::make_unique<IdxDataset>(test_digits());
      return;
    case DatasetKind::idx: return load_idx(options);
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
    throw Error(fmt::format("--data: {}", error.what()));
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
  check_counts(options, size_, processes, ranks_per_process);
}

void TrainingData::draw(const Options& options, std::size_t features, Generator& generator) {
  if (options.dataset != DatasetKind::synthetic) return;
  train_ = std::make_unique<TensorDataset>(
      synthetic_dataset(options.samples, features, options.classes, generator));
}

std::vector<CommandLine::Value> TrainingData::hashes(const Options& options) const {
  return {{"training data", train_ ? describe(options.dataset, *train_)
                                   : fmt::format("synthetic, {} samples", options.samples)},
          {"test data", test_ ? describe(options.dataset, *test_) : "none", Effect::nothing}};
}

}  // namespace dist
