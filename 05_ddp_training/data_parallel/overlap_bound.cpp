#include "05_ddp_training/data_parallel/overlap_bound.hpp"

#include <algorithm>
#include <cstddef>

namespace dist {

double hideable_ms(std::span<const double> full, std::span<const double> took,
                   double computed) {
  double total = 0;
  double end = 0;
  for (std::size_t i = 0; i < full.size(); ++i) {
    end = (i == 0 ? full[i] : std::max(end, full[i])) + took[i];
    total += took[i];
  }
  return total - std::max(0.0, end - computed);
}

}  // namespace dist
