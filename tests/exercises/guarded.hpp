// Memory with guard zones: a solution that writes past its end, or before its beginning, is
// told so instead of crashing something else later.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace dist::exercise {

// `count` floats between two zones of NaNs, which also poison what is computed from reading
// there.
class Guarded {
 public:
  explicit Guarded(std::size_t count, float fill = 0.0F)
      : memory_(count + 2 * kZone, std::numeric_limits<float>::quiet_NaN()), count_(count) {
    std::ranges::fill(span(), fill);
  }

  std::span<float> span() { return std::span(memory_).subspan(kZone, count_); }
  std::span<const float> span() const { return std::span(memory_).subspan(kZone, count_); }

  // Whether nobody wrote into the zones.
  bool intact() const {
    const auto untouched = [](float value) { return value != value; };
    const std::span<const float> all(memory_);
    return std::ranges::all_of(all.first(kZone), untouched) &&
           std::ranges::all_of(all.last(kZone), untouched);
  }

 private:
  static constexpr std::size_t kZone = 64;
  std::vector<float> memory_;
  std::size_t count_;
};

}  // namespace dist::exercise
