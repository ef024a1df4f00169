// Lesson 5: the kernels whose sizes matter, predictions, and rounding to bfloat16.
// linear_test.cpp tests the kernels of a layer, nonfinite_test.cpp the loss. Every rank draws
// different numbers, so more ranks mean more cases.
#include "05_ddp_training/model/kernels.hpp"

#include "05_ddp_training/model/bf16.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "tests/support/lesson05.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("a non-finite number is found in any element of any of many tensors", "[gpu]") {
  // More tensors than one kernel can handle, and sizes around those of the CPU's blocks.
  std::vector<std::size_t> sizes{1, 7, 4095, 4096, 4097, 300'001};
  while (sizes.size() < 70) sizes.push_back(3);
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Device device : devices()) {
    const Stream stream(device);
    std::vector<Parameter> parameters;
    for (const std::size_t size : sizes) {
      parameters.push_back(
          {"", Tensor({size}, device), upload(stream, Floats(size, kLargest))});
    }
    Optimizer optimizer({.name = "sgd"}, parameters, stream);
    const auto culprit = [&] {
      optimizer.step(/*lr=*/0.0, stream);
      stream.synchronize();
      return optimizer.report().culprit;
    };
    const auto set = [&](std::size_t tensor, std::size_t index, float number) {
      copy_bytes(stream, parameters[tensor].grad.data() + index, &number, sizeof number);
      stream.synchronize();
    };
    CAPTURE(to_string(device));
    CHECK(culprit() == -1);
    for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
      for (std::size_t t = 0; t < sizes.size(); t = t < 6 ? t + 1 : t + 9) {
        for (const std::size_t index : {std::size_t{0}, sizes[t] / 2, sizes[t] - 1}) {
          set(t, index, bad);
          CHECK(culprit() == static_cast<std::int64_t>(t));
          set(t, index, -kLargest);
          CHECK(culprit() == -1);
        }
      }
    }
    set(69, 1, kInfinity);
    set(2, 1, kInfinity);
    CHECK(culprit() == 2);  // the first
  }
}

TEST_CASE("a kernel reaches every element even if each thread must handle several", "[gpu]") {
  // More elements than 4096 blocks of 256 threads can handle at once.
  const std::size_t count = 2'500'003;
  const Floats x = noise(count, 60);
  Floats want = x;
  for (float& value : want) value *= 3.0F;
  const Floats got = everywhere([&](const Stream& stream) {
    const Tensor values = upload(stream, x);
    scale(stream, count, 3.0F, values.data());
    return to_host(stream, values);
  });
  CHECK(largest_error(got, want) == 0.0);
}

TEST_CASE("a prediction is right if the first of the largest logits is the target's", "[gpu]") {
  const Floats logits{1,    3,         3,         2,   //
                      1,    3,         3,         2,   //
                      5,    5,         5,         5,   //
                      5,    5,         5,         5,   //
                      -9,   -8,        -7,        -6,  //
                      -9,   -8,        -7,        -6,  //
                      0,    -1,        0,         -1,  //
                      1,    kNaN,      HUGE_VALF, 2,  // NaN is the largest, as for torch.argmax
                      kNaN, HUGE_VALF, kNaN,      2};
  const std::vector<std::int32_t> targets{1, 2, 0, 3, 3, 0, 2, 1, 0};
  const Floats want{1, 0, 1, 0, 1, 0, 0, 1, 1};
  const Floats got = everywhere([&](const Stream& stream) {
    const Tensor hits({targets.size()}, stream.device());
    const Buffer<std::int32_t> labels(targets.size(), stream.device());
    copy_bytes(stream, labels.data(), targets.data(), labels.size_bytes());
    count_hits(stream, targets.size(), 4, upload(stream, logits).data(), labels.data(),
               hits.data());
    return to_host(stream, hits);
  });
  CHECK(got == want);
}

TEST_CASE("an evaluation makes as many forward passes as the rank with the most batches") {
  const Stream stream(Device{});
  Mlp model = make_model(100, stream);
  std::size_t passes = 0;
  model.before_layer([&](std::size_t layer) { passes += layer == 0 ? 1 : 0; });
  const TensorDataset dataset = make_dataset(9, 200);
  Evaluation evaluation(dataset, stream);
  const std::size_t correct = evaluation.count_correct(model, {0, 1, 2, 3});
  CHECK(passes == 1);
  CHECK(evaluation.count_correct(model, {0, 1, 2, 3}, 3) == correct);
  CHECK(passes == 1 + 3);
  CHECK(evaluation.count_correct(model, {}, 2) == 0);
  CHECK(passes == 1 + 3 + 2);
}

// The Bf16 nearest to `value`, found by trying the numbers around it.
static std::uint16_t nearest(float value) {
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
    Operands operands(Precision::bf16);
    const Operand operand = operands.of(stream, 0, upload(stream, values));
    std::vector<std::uint16_t> got(values.size());
    copy_bytes(stream, got.data(), operand.rounded, operands.size_bytes());
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
