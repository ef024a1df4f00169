// Lesson 5: each kernel is compared with plain loops in double precision. Every rank draws
// different numbers, so more ranks mean more cases.
#include "05_ddp_training/model/linear.hpp"
#include "05_ddp_training/optimizer/adam.hpp"
#include "05_ddp_training/optimizer/sgd.hpp"
#include "common/buffer.hpp"
#include "tests/support/device_numbers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

// A state that lets a step be taken, on the stream's device.
Buffer<UpdateState> uploaded(const Stream& stream, const UpdateState& state) {
  Buffer<UpdateState> copy(1, stream.device());
  copy_bytes(stream, copy.data(), &state, sizeof state);
  stream.synchronize();
  return copy;
}

}  // namespace

TEST_CASE("adding a bias, with and without ReLU, rounds the exact sum once", "[gpu]") {
  const std::size_t rows = 7;
  const std::size_t columns = 17;
  const Floats x = noise(rows * columns, 1);
  const Floats bias = noise(columns, 2);
  for (const bool relu : {false, true}) {
    CAPTURE(relu);
    const Floats got = everywhere([&](const Stream& stream) {
      const Tensor values = upload(stream, x);
      const Tensor b = upload(stream, bias);
      (relu ? add_bias_relu : add_bias)(stream, rows, columns, b.data(), values.data());
      return to_host(stream, values);
    });
    Floats want;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double sum = static_cast<double>(x[i]) + static_cast<double>(bias[i % columns]);
      want.push_back(static_cast<float>(relu ? std::max(sum, 0.0) : sum));
    }
    CHECK(largest_error(got, want) == 0.0);
  }
}

TEST_CASE("a ReLU passes the gradient on only where the ReLU's output is above zero", "[gpu]") {
  const Floats gradient = noise(101, 3);
  Floats output = noise(101, 4);
  for (float& value : output) value = std::max(value, 0.0F);
  const Floats got = everywhere([&](const Stream& stream) {
    const Tensor values = upload(stream, gradient);
    relu_backward(stream, output.size(), upload(stream, output).data(), values.data());
    return to_host(stream, values);
  });
  Floats want;
  for (std::size_t i = 0; i < output.size(); ++i) {
    want.push_back(output[i] == 0.0F ? 0.0F : gradient[i]);
  }
  CHECK(largest_error(got, want) == 0.0);
}

TEST_CASE("column sums are right for widths near that of a block of columns", "[gpu]") {
  for (const std::size_t rows : {1U, 7U}) {
    for (const std::size_t columns : {1U, 15U, 16U, 17U, 100U}) {
      CAPTURE(rows, columns);
      const Floats x = noise(rows * columns, columns);
      const float untouched = -12345.0F;  // the number after the sums
      const Floats got = everywhere([&](const Stream& stream) {
        const Tensor sums = upload(stream, Floats(columns + 1, untouched));
        column_sums(stream, rows, columns, upload(stream, x).data(), sums.data());
        return to_host(stream, sums);
      });
      Numbers want(columns);
      for (std::size_t i = 0; i < x.size(); ++i) {
        want[i % columns] += static_cast<double>(x[i]);
      }
      want.push_back(static_cast<double>(untouched));
      CHECK(largest_error(got, want) < 1e-6);
    }
  }
}

TEST_CASE("a non-finite number is found in any element of any of many tensors", "[gpu]") {
  // More tensors than one kernel can handle, and sizes around those of the CPU's blocks.
  std::vector<std::size_t> sizes{1, 7, 4095, 4096, 4097, 300'001};
  while (sizes.size() < 70) sizes.push_back(3);
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Device device : devices()) {
    const Stream stream(device);
    std::vector<Tensor> gradients;
    std::vector<UpdateTensors> tensors;
    for (const std::size_t size : sizes) {
      gradients.push_back(upload(stream, Floats(size, kLargest)));
      tensors.push_back(
          {.count = size, .gradient = gradients.back().data(), .number = tensors.size()});
    }
    const Buffer<double> lr(kMostStepsInFlight, device, Memory::pinned);
    const Tensor not_finite({sizes.size()}, device);
    const Buffer<unsigned> blocks_done(1, device);
    const Buffer<UpdateState> state = uploaded(stream, {});
    const Buffer<UpdateState> reports(kMostStepsInFlight, device, Memory::pinned);
    std::size_t call = 0;
    const auto culprit = [&] {
      lr.data()[call % kMostStepsInFlight] = 0.5;
      check_finite(stream, tensors,
                   {.lr = lr.data(),
                    .reports = reports.data(),
                    .state = state.data(),
                    .not_finite = {not_finite.data(), not_finite.numel()},
                    .blocks_done = blocks_done.data()},
                   /*decides=*/true);
      stream.synchronize();
      return reports.data()[call++ % kMostStepsInFlight].culprit;
    };
    const auto set = [&](std::size_t tensor, std::size_t index, float number) {
      copy_bytes(stream, gradients[tensor].data() + index, &number, sizeof number);
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
  const Floats before = noise(count, 60);
  const Floats gradient = noise(count, 61);
  const Floats got = everywhere([&](const Stream& stream) {
    const Tensor p = upload(stream, before);
    const Tensor g = upload(stream, gradient);
    sgd_step(stream, std::array{UpdateTensors{count, g.data(), p.data()}}, {},
             uploaded(stream, {.lr = 0.5F}).data());
    return to_host(stream, p);
  });
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    wrong += got[i] == std::fma(gradient[i], -0.5F, before[i]) ? 0U : 1U;
  }
  CHECK(wrong == 0);
}

TEST_CASE("a step of SGD rounds once, and a step of Adam follows the formula", "[gpu]") {
  const std::size_t count = 100;
  const Floats before = noise(count, 7);
  Floats gradient = noise(count, 8);
  // With such small gradients it matters whether eps is added outside or inside the square
  // root.
  for (std::size_t i = 0; i < count; i += 3) gradient[i] *= 1e-8F;

  SECTION("SGD") {
    const float lr = 0.3F;
    const Floats got = everywhere([&](const Stream& stream) {
      const Tensor p = upload(stream, before);
      const Tensor g = upload(stream, gradient);
      sgd_step(stream, std::array{UpdateTensors{count, g.data(), p.data()}}, {},
               uploaded(stream, {.lr = lr}).data());
      return to_host(stream, p);
    });
    Floats want;
    for (std::size_t i = 0; i < count; ++i) {
      want.push_back(
          static_cast<float>(static_cast<double>(before[i]) -
                             static_cast<double>(lr) * static_cast<double>(gradient[i])));
    }
    CHECK(largest_error(got, want) == 0.0);
  }

  SECTION("Adam, third step") {
    const Floats m_before = noise(count, 9);
    Floats v_before = noise(count, 10);
    for (std::size_t i = 0; i < count; ++i) {
      v_before[i] *= v_before[i] * (i % 3 == 0 ? 1e-16F : 1.0F);
    }
    const double lr = 0.01;
    UpdateState third{.steps = 3};
    prepare_adam(third, lr, 0.9, 0.999, 0.0);
    const Floats got = everywhere([&](const Stream& stream) {
      const Tensor all = upload(stream, before);
      const Tensor m = upload(stream, m_before);
      const Tensor v = upload(stream, v_before);
      const Tensor g = upload(stream, gradient);
      adam_step(stream,
                std::array{UpdateTensors{count, g.data(), all.data(), m.data(), v.data()}}, {},
                uploaded(stream, third).data());
      Floats result = to_host(stream, all);
      for (const Tensor& state : {m, v}) {
        const Floats numbers = to_host(stream, state);
        result.insert(result.end(), numbers.begin(), numbers.end());
      }
      return result;
    });
    Numbers want(3 * count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto g = static_cast<double>(gradient[i]);
      const double m = 0.1 * g + 0.9 * static_cast<double>(m_before[i]);
      const double v = 0.001 * g * g + 0.999 * static_cast<double>(v_before[i]);
      const double root = std::sqrt(v / (1 - std::pow(0.999, 3)));
      want[i] =
          static_cast<double>(before[i]) - lr / (1 - std::pow(0.9, 3)) * m / (root + 1e-8);
      want[count + i] = m;
      want[2 * count + i] = v;
    }
    CHECK(largest_error(got, want) < 1e-6);
  }
}
