#include "05_ddp_training/trainer/image_data.hpp"

#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "04_distributed_sampler/datasets/idx_dataset.hpp"
#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "common/hash.hpp"
#include "common/random.hpp"

#include <string>

namespace dist {

static std::unique_ptr<Dataset> read(const IdxPair& pair) {
  return std::make_unique<IdxDataset>(read_idx_dataset(pair.images, pair.labels));
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

void ImageData::load_idx(const Options& options) {
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

void ImageData::load_sets(const Options& options) {
  switch (options.dataset) {
    case DatasetKind::synthetic: return;  // draw() makes it
    case DatasetKind::digits:
      train_ = std::make_unique<IdxDataset>(training_digits());
      test_ = std::make_unique<IdxDataset>(test_digits());
      return;
    case DatasetKind::idx: return load_idx(options);
  }
}

void ImageData::draw(const Options& options, std::size_t features, Generator& generator) {
  if (options.dataset != DatasetKind::synthetic) return;
  train_ = std::make_unique<TensorDataset>(
      synthetic_dataset(options.samples, features, options.classes, generator));
}

std::vector<CommandLine::Value> ImageData::hashes(const Options& options) const {
  return {{"training data", train_ ? describe(options.dataset, *train_)
                                   : fmt::format("synthetic, {} samples", options.samples)},
          {"test data", test_ ? describe(options.dataset, *test_) : "none", Effect::nothing}};
}

}  // namespace dist
