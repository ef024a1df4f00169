// alpha-beta.json: if the costs are accepted, they give a finite time for every message size.
#include "01_send_recv/alpha_beta.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <cmath>
#include <filesystem>
#include <vector>

using namespace dist;

namespace {

void check(const LinkCost& cost) {
  require(cost.alpha_s >= 0 && cost.beta_s_per_byte >= 0, "no cost is negative");
  require(cost.ranks >= 0 && cost.ranks <= 1'000'000, "the number of ranks is plausible");
  for (const std::vector<CostPoint>& points : {cost.message, cost.exchange}) {
    std::size_t last = 0;
    for (const auto& [bytes, seconds] : points) {
      require(bytes > last && seconds > 0, "sizes ascend, and times are above zero");
      last = bytes;
    }
  }
  for (std::size_t bytes = 1; bytes != 0; bytes *= 2) {
    for (const double seconds : {cost.message_seconds(bytes), cost.exchange_seconds(bytes)}) {
      require(seconds >= 0 && std::isfinite(seconds), "the time for every size is finite");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::filesystem::create_directory(".learn");
  write_file(kLinkCostFile, {data, size});
  accepts(kLinkCostFile, [] { check(load_link_cost().value()); });
  return 0;
}
