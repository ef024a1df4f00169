// A data set: numbered samples, each with features and a class (torch.utils.data.Dataset).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dist {

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::size_t size() const = 0;      // samples
  virtual std::size_t features() const = 0;  // numbers per sample
  virtual std::size_t classes() const = 0;   // labels are 0 .. classes - 1

  // Writes sample `index` (less than size()) into `row` (features() elements) and returns its
  // label. May be called from any thread.
  virtual std::int32_t get(std::size_t index, std::span<float> row) const = 0;
};

}  // namespace dist
