// Lesson 5: rounding to bfloat16, and a model with products of rounded matrices.
// linear_test.cpp tests the products themselves.
#include "05_ddp_training/model/bf16.hpp"

#include "tests/support/lesson05.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

// The Bf16 nearest to `value`, found by trying the numbers around it.
std::uint16_t nearest(float value) {
  const auto below = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  const auto above = static_cast<std::uint16_t>(below + 1);  // further away from 0
  // Rounding goes on as if the exponent had no limit: after the largest number comes 2^128.
  const auto place = [](std::uint16_t bits) {
    const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    return (bits & 0x7fff) == 0x7f80 ? sign * std::ldexp(1.0, 128) : double{to_float({bits})};
  };
  const double to_below = std::abs(static_cast<double>(value) - place(below));
  const double to_above = std::abs(place(above) - static_cast<double>(value));
  if (to_below == to_above) return below % 2 == 0 ? below : above;
  return to_below < to_above ? below : above;
}

Tensor random_matrix(const Stream& stream, const Shape& shape, std::uint64_t seed) {
  return upload(stream, noise(numel(shape), seed), shape);
}

Mlp make_model(Precision precision, const Stream& stream) {
  Generator generator(seed_of_this_rank(3));
  return {kWidths, generator, stream, precision};
}

// |got - wanted| / |wanted|. Rounding may move a number through ReLU's kink, which changes a
// few gradients much and all of them together little.
double relative_distance(const Floats& got, const Floats& wanted) {
  REQUIRE(got.size() == wanted.size());
  double difference = 0;
  double length = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(double{got[i]} - double{wanted[i]}, 2);
    length += std::pow(double{wanted[i]}, 2);
  }
  return std::sqrt(difference / length);
}

}  // namespace

TEST_CASE("every float32 is rounded to the nearest bfloat16, ties to even", "[gpu]") {
  Floats values;
  std::vector<std::uint16_t> want;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t lower : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const auto value = std::bit_cast<float>(upper << 16 | lower);
      if (!std::isfinite(value)) continue;
      values.push_back(value);
      want.push_back(nearest(value));
    }
  }
  REQUIRE(values.size() == 6 * (0x10000 - 2 * 0x80));
  for (const Device device : devices()) {
    const Stream stream(device);
    Factors factors(Precision::bf16);
    const Factor factor = factors.of(stream, 0, upload(stream, values));
    std::vector<std::uint16_t> got(values.size());
    copy_bytes(stream, got.data(), factor.rounded, factors.size_bytes());
    stream.synchronize();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < want.size(); ++i) wrong += got[i] == want[i] ? 0 : 1;
    CHECK(wrong == 0);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(to_float(to_bf16(infinity)) == infinity);
  CHECK(to_float(to_bf16(-infinity)) == -infinity);
  for (const std::uint32_t bits : {0x7f800001U, 0x7fc00000U, 0x7fffffffU, 0xffffffffU}) {
    CHECK(std::isnan(to_float(to_bf16(std::bit_cast<float>(bits)))));
  }
}

TEST_CASE("a model with products in bf16 has nearly the gradients of one in fp32", "[gpu]") {
  for (const Device device : devices()) {
    CAPTURE(to_string(device));
    const Stream stream(device);
    Mlp plain = make_model(Precision::fp32, stream);
    Mlp model = make_model(Precision::bf16, stream);
    Mlp fetched = make_model(Precision::bf16, stream);
    std::size_t fetches = 0;
    fetched.before_layer([&](std::size_t) { ++fetches; });
    CHECK(plain.copy_bytes() == 0);
    for (const std::size_t rows : {4U, 9U, 2U}) {
      const Tensor input = random_matrix(stream, {rows, kWidths.front()}, rows);
      const Tensor grad = random_matrix(stream, {rows, kWidths.back()}, rows + 1);
      for (Mlp* each : {&plain, &model, &fetched}) {
        each->forward(input, stream);
        each->backward(grad, stream);
      }
      const Floats exact = flat(plain, &Parameter::grad, stream);
      const Floats got = flat(model, &Parameter::grad, stream);
      CHECK(relative_distance(got, exact) < 0.2);
      CHECK(relative_distance(got, exact) > 1e-4);
      CHECK(flat(fetched, &Parameter::grad, stream) == got);
      model.forward(input, stream);
      model.backward(grad, stream, Accumulate::yes);
      Numbers twice = in_double(got);
      for (double& number : twice) number *= 2;
      // On a GPU, a bias's gradient may be the sum of rounded numbers, unless it is added to.
      const double tolerance = device.is_cpu() ? 1e-5 : 0.02;
      CHECK(largest_error(flat(model, &Parameter::grad, stream), twice) < tolerance);
    }
    CHECK(fetches == 3 * 2 * 3);
    CHECK(flat(model, &Parameter::value, stream) == flat(plain, &Parameter::value, stream));
    // 9 rows of each layer's input and of its widest gradient, and the weights.
    CHECK(model.copy_bytes() == 2 * (9 * (5 + 7 + 6 + 7) + 5 * 7 + 7 * 6 + 6 * 3));
    // One place for all weights, which has the size of the largest.
    CHECK(fetched.copy_bytes() == 2 * (9 * (5 + 7 + 6 + 7) + 7 * 6));
  }
}
