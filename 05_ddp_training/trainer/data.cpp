#include "05_ddp_training/trainer/data.hpp"

#include "02_broadcast/fingerprint.hpp"
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "04_distributed_sampler/datasets/idx_dataset.hpp"
#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

namespace dist {
namespace {

struct IdxPair {
  std::string images, labels;
};

std::unique_ptr<Dataset> read(const IdxPair& pair) {
  return std::make_unique<IdxDataset>(read_idx_dataset(pair.images, pair.labels));
}

// Returns the pairs of files in `folder` by the begin of their names, such as "train". Throws
// Error if only one file of a pair is there: training without it would use different data.
std::map<std::string, IdxPair> find_idx_pairs(const std::string& folder) {
  const std::string images = "-images-idx3-ubyte";
  const std::string labels = "-labels-idx1-ubyte";
  std::error_code problem;
  std::map<std::string, IdxPair> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
    std::string name = entry.path().filename().string();
    if (name.ends_with(".gz")) name.resize(name.size() - 3);
    const bool is_images = name.ends_with(images);
    if (!is_images && !name.ends_with(labels)) continue;
    IdxPair& pair = found[name.substr(0, name.size() - images.size())];
    std::string& file = is_images ? pair.images : pair.labels;
    if (file.empty() || file.ends_with(".gz")) file = entry.path().string();
  }
  check_usage(!problem, "{}: {}", folder, problem.message());
  check_usage(!found.empty(), "{}: contains no *{}[.gz]", folder, images);
  for (const auto& [name, pair] : found) {
    const bool no_images = pair.images.empty();
    const std::filesystem::path missing =
        std::filesystem::path(folder) / (name + (no_images ? images : labels));
    check_usage(!no_images && !pair.labels.empty(), "{}[.gz] is missing, but {} is there",
                missing.string(), no_images ? pair.labels : pair.images);
  }
  return found;
}

void check_widths(Options& options, std::size_t features, std::size_t classes) {
  if (!options.layers_given) {
    options.layers.front() = features;
    options.layers.back() = classes;
  }
  check_usage(options.layers.front() == features,
              "--layers: the input width is {}, but a sample has {} features",
              options.layers.front(), features);
  check_usage(options.layers.back() == classes,
              "--layers: the output width is {}, but the data has {} classes",
              options.layers.back(), classes);
}

// Each of the `processes` processes plays `here` ranks, which share its batch.
void check_counts(const Options& options, std::size_t samples, int processes,
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

std::string fingerprint(const std::string& name, const Dataset& data) {
  Fingerprint hash;
  std::vector<float> row(data.features());
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::int32_t label = data.get(i, row);
    hash.add(row.data(), row.size() * sizeof(float));
    hash.add(&label, sizeof label);
  }
  return fmt::format("{}, {} samples, {:016x}", name, data.size(), hash.value());
}

}  // namespace

void TrainingData::load_idx(const Options& options) {
  const std::map<std::string, IdxPair> pairs = find_idx_pairs(options.data);
  if (pairs.contains("train") && pairs.contains("t10k")) {
    const IdxPair& train = pairs.at("train");
    const IdxPair& test = pairs.at("t10k");
    train_ = read(train);
    test_ = read(test);
    check_usage(test_->features() == train_->features(), "{} features in {}, {} in {}",
                train_->features(), train.images, test_->features(), test.images);
    return;
  }
  check_usage(pairs.size() == 1, "{}: {} pairs of files, but not train-* and t10k-*",
              options.data, pairs.size());
  whole_ = read(pairs.begin()->second);
  const auto held_back =
      static_cast<std::size_t>(static_cast<double>(whole_->size()) * options.test_fraction);
  const std::size_t kept = whole_->size() - held_back;
  train_ = std::make_unique<Subset>(*whole_, 0, kept);
  if (held_back > 0) test_ = std::make_unique<Subset>(*whole_, kept, held_back);
}

void TrainingData::load(Options& options, int processes, std::size_t ranks_per_process) {
  if (options.dataset == "digits") {
    train_ = std::make_unique<IdxDataset>(training_digits());
    test_ = std::make_unique<IdxDataset>(test_digits());
  } else if (options.dataset == "idx") {
    try {
      load_idx(options);
    } catch (const Error& error) {
      throw Error(fmt::format("--data: {}", error.what()));
    }
  }
  size_ = train_ ? train_->size() : options.samples;
  const std::size_t classes = train_ ? train_->classes() : options.classes;
  check_widths(options, train_ ? train_->features() : options.layers.front(),
               std::max(classes, test_ ? test_->classes() : 0));
  check_counts(options, size_, processes, ranks_per_process);
}

void TrainingData::draw(const Options& options, Generator& generator) {
  if (options.dataset != "synthetic") return;
  train_ = std::make_unique<TensorDataset>(synthetic_dataset(
      options.samples, options.layers.front(), options.layers.back(), generator));
}

std::vector<CommandLine::Value> TrainingData::fingerprints(const Options& options) const {
  return {{"training data", train_ ? fingerprint(options.dataset, *train_)
                                   : fmt::format("synthetic, {} samples", options.samples)},
          {"test data", test_ ? fingerprint(options.dataset, *test_) : "none"}};
}

}  // namespace dist
