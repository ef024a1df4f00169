// A data set: numbered samples, each with features and a class, or with several
// (torch.utils.data.Dataset).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dist {

class Dataset {
 public:
  Dataset(std::size_t size, std::size_t features, std::size_t classes, std::size_t targets = 1)
      : size_(size), features_(features), classes_(classes), targets_(targets) {}
  virtual ~Dataset() = default;

  std::size_t size() const { return size_; }          // samples
  std::size_t features() const { return features_; }  // numbers per sample
  std::size_t classes() const { return classes_; }    // targets are 0 .. classes - 1
  // Per sample: one, its label, or for example one for each place of a text.
  std::size_t targets() const { return targets_; }

  // Writes sample `index` (less than size()) into `row` (features() elements) and `targets`
  // (targets() elements). May be called from any thread.
  virtual void get(std::size_t index, std::span<float> row,
                   std::span<std::int32_t> targets) const = 0;
  // The same for samples of one target, which it returns.
  std::int32_t get(std::size_t index, std::span<float> row) const {
    std::int32_t target = 0;
    get(index, row, std::span(&target, 1));
    return target;
  }

 private:
  std::size_t size_, features_, classes_, targets_;
};

}  // namespace dist
