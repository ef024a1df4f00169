// A data set: numbered samples, each with features and a class (torch.utils.data.Dataset).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dist {

class Dataset {
 public:
  Dataset(std::size_t size, std::size_t features, std::size_t classes)
      : size_(size), features_(features), classes_(classes) {}
  virtual ~Dataset() = default;

  std::size_t size() const { return size_; }          // samples
  std::size_t features() const { return features_; }  // numbers per sample
  std::size_t classes() const { return classes_; }    // labels are 0 .. classes - 1

  // Writes sample `index` (less than size()) into `row` (features() elements) and returns its
  // label. May be called from any thread.
  virtual std::int32_t get(std::size_t index, std::span<float> row) const = 0;

 private:
  std::size_t size_, features_, classes_;
};

}  // namespace dist
