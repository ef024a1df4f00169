// The digits that the course renders itself.
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/idx_bytes.hpp"
#include "tests/support/mpi_test.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("rendered digits have the same bytes everywhere, and ten classes of equal size",
          "[one process]") {
  const IdxDataset data = digits_dataset(1000, 0);
  CHECK(data.size() == 1000);
  CHECK(data.features() == 28 * 28);
  CHECK(data.classes() == 10);
  Bytes pixels, labels;
  std::vector<float> row(data.features());
  for (std::size_t i = 0; i < data.size(); ++i) {
    labels.push_back(static_cast<std::uint8_t>(data.get(i, row)));
    for (const float x : row) pixels.push_back(static_cast<std::uint8_t>(x * 255 + 0.5F));
  }
  CHECK(sha256_of(joined(idx({kImages, 1000, 28, 28}, pixels), idx({kLabels, 1000}, labels))) ==
        "d88db258b7a739d80fcd0308200a7fffe1e0487293c027cb3e6b8e680d92bee4");
  for (std::uint8_t digit = 0; digit < 10; ++digit) {
    CHECK(std::ranges::count(labels, digit) == 100);
  }
  std::vector<float> other(data.features());
  data.get(0, row);
  digits_dataset(50, 1).get(0, other);
  CHECK(row != other);
}
