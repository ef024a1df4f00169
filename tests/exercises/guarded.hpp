// Memory with guard zones, so that an out-of-bounds write is reported instead of causing a
// crash elsewhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace dist::exercise {

// `count` floats between two zones filled with a number that no solution computes. That number
// is not NaN: NaN plus anything is NaN, so an addition would go unnoticed.
class Guarded {
 public:
  explicit Guarded(std::size_t count, float fill = 0.0F)
      : memory_(count + 2 * kZone, kMark), count_(count) {
    std::ranges::fill(span(), fill);
  }

  std::span<float> span() { return std::span(memory_).subspan(kZone, count_); }
  std::span<const float> span() const { return std::span(memory_).subspan(kZone, count_); }

  // True if both zones are unchanged.
  bool intact() const {
    const auto untouched = [](float value) { return value == kMark; };
    const std::span<const float> all(memory_);
    return std::ranges::all_of(all.first(kZone), untouched) &&
           std::ranges::all_of(all.last(kZone), untouched);
  }

 private:
  static constexpr std::size_t kZone = 64;
  static constexpr float kMark = -77777.25F;
  std::vector<float> memory_;
  std::size_t count_;
};

}  // namespace dist::exercise
