// Fault 7: a bit of one replica's parameters flips.
#include "05_ddp_training/advanced/guards/replica_check.hpp"
#include "tests/support/lesson05.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>

using namespace dist;
using namespace dist::test;

TEST_CASE("a flipped bit on one rank is found, and all ranks report where it is", "[fault07]") {
  const Stream stream(Device{});
  Mlp model = make_model(100, stream);
  CHECK(first_difference(world(), model.parameters(), stream).empty());
  const auto flip_lowest_bit = [](float& number) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof(bits));
    bits ^= 1U;
    std::memcpy(&number, &bits, sizeof(bits));
  };
  int flips = 0;
  for (const std::size_t culprit : {std::size_t{0}, ranks() / 2, ranks() - 1}) {
    for (const Parameter& parameter : model.parameters()) {
      CAPTURE(culprit, parameter.name);
      float& number = parameter.value.span().back();
      if (rank() == culprit) flip_lowest_bit(number);
      const std::string found = first_difference(world(), model.parameters(), stream);
      // With only two ranks, there is no telling which one is right.
      CHECK(found == (ranks() == 1   ? std::string()
                      : ranks() == 2 ? fmt::format("{} of ranks 0, 1", parameter.name)
                                     : fmt::format("{} of rank {}", parameter.name, culprit)));
      if (rank() == culprit) flip_lowest_bit(number);
      ++flips;
    }
  }
  if (rank() == 0) std::cout << "figure 7: " << flips << " flips, all found" << std::endl;
  // If two parameters are wrong, the first one is named.
  for (const std::size_t index : {std::size_t{2}, std::size_t{5}}) {
    float& number = model.parameters()[index].value.span().front();
    number += static_cast<float>(world().rank());
  }
  CHECK(
      first_difference(world(), model.parameters(), stream).starts_with("2.weight of ranks") ==
      (ranks() > 1));
}
