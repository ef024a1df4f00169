// Lesson 5: a bit of one replica's parameters flips.
#include "05_ddp_training/data_parallel/replica_check.hpp"

#include "tests/support/lesson05.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>

using namespace dist;
using namespace dist::test;

static void flip_lowest_bit(const Stream& stream, float* number) {
  std::uint32_t bits = 0;
  copy_bytes(stream, &bits, number, sizeof bits);
  stream.synchronize();
  bits ^= 1U;
  copy_bytes(stream, number, &bits, sizeof bits);
  stream.synchronize();
}

TEST_CASE("a flipped bit on one rank is found, and all ranks report where it is", "[gpu]") {
  for (const Device device : devices()) {
    const Stream stream(device);
    Mlp model = make_model(100, stream, {5, 70, 6, 3});
    const auto found = [&] { return first_difference(world(), model.parameters(), stream); };
    CHECK(found().empty());
    for (const std::size_t culprit : {std::size_t{0}, ranks() / 2, ranks() - 1}) {
      for (const Parameter& parameter : model.parameters()) {
        CAPTURE(to_string(device), culprit, parameter.name);
        float* const number = parameter.value.data() + parameter.value.numel() - 1;
        if (rank() == culprit) flip_lowest_bit(stream, number);
        // With only two ranks, there is no telling which one is right.
        CHECK(found() == (ranks() == 1 ? std::string()
                          : ranks() == 2
                              ? fmt::format("{} of ranks 0, 1", parameter.name)
                              : fmt::format("{} of rank {}", parameter.name, culprit)));
        if (rank() == culprit) flip_lowest_bit(stream, number);
      }
    }
    // If two parameters are wrong, the first one is named.
    if (rank() == 0) {
      for (const std::size_t index : {std::size_t{5}, std::size_t{2}}) {
        flip_lowest_bit(stream, model.parameters()[index].value.data());
      }
    }
    CHECK(found().starts_with("2.weight of rank") == (ranks() > 1));
  }
}

TEST_CASE("replicas with the same NaN on all ranks are equal, and wrong", "[gpu]") {
  for (const Device device : devices()) {
    const Stream stream(device);
    Mlp model = make_model(100, stream, {5, 70, 6, 3});
    const auto wrong = [&] { return wrong_replicas(world(), model.parameters(), stream); };
    CHECK(wrong().empty());
    const Tensor& bias = model.parameters()[3].value;
    copy_bytes(stream, bias.data() + 1, &kNaN, sizeof kNaN);
    CHECK(first_difference(world(), model.parameters(), stream).empty());
    CHECK(wrong() == "the parameters diverged: 2.bias has a number that is not finite");
    if (rank() == 0) flip_lowest_bit(stream, bias.data());
    CHECK(wrong().starts_with("the replicas differ, first in 2.bias of rank") == (ranks() > 1));
  }
}
