// The kernels whose sizes matter. linear_test.cpp tests those of a layer, nonfinite_test.cpp
// the loss.
#include "05_ddp_training/model/kernels.hpp"

#include "05_ddp_training/optimizer/optimizer.hpp"
#include "tests/support/device_numbers.hpp"

#include <cstdint>
#include <limits>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("a non-finite number is found in any element of any of many tensors",
          "[gpu][one process]") {
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
    Optimizer optimizer({.kind = OptimizerKind::sgd}, parameters, stream);
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

TEST_CASE("a kernel reaches every element even if each thread must handle several",
          "[gpu][one process]") {
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
