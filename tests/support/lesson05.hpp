// Shared by the tests of lesson 5: a small model, and random data that fit it.
#pragma once

#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "common/random.hpp"
#include "tests/support/device_numbers.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dist::test {

inline const std::vector<std::size_t> kWidths{5, 7, 6, 3};

inline std::size_t rank() {
  return static_cast<std::size_t>(world().rank());
}

inline Mlp make_model(std::uint64_t seed, const Stream& stream,
                      const std::vector<std::size_t>& widths = kWidths) {
  Generator generator(seed);
  return {widths, generator, stream};
}

inline TensorDataset make_dataset(std::size_t samples, std::uint64_t seed,
                                  const std::vector<std::size_t>& widths = kWidths) {
  Generator generator(seed);
  return synthetic_dataset(samples, widths.front(), widths.back(), generator);
}

inline const Stream kStream{Device{}};

// Two parameters: one has `split` elements, and the other has the remaining ones. Each needs
// its own state.
inline std::vector<Parameter> two_parameters(const Tensor& value, const Tensor& grad,
                                             std::size_t split) {
  const std::size_t rest = value.numel() - split;
  return {{"a", value.narrow(0, split), grad.narrow(0, split)},
          {"b", value.narrow(split, rest), grad.narrow(split, rest)}};
}

// Every device in every precision that it has. A CPU without bf16 computes it by a plain loop.
struct Kind {
  Device device;
  Precision precision;
};
inline std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const Device device : devices()) {
    for (const auto precision : {Precision::fp32, Precision::bf16}) {
      const bool plain = precision == Precision::fp32 || device.is_cpu();
      if (plain || why_no_bf16(device).empty()) all.push_back({device, precision});
    }
  }
  return all;
}

// All parameters, or all gradients, in one list.
inline Floats flat(const Mlp& model, Tensor Parameter::*which, const Stream& stream) {
  Floats all;
  for (const Parameter& parameter : model.parameters()) {
    const Floats numbers = to_host(stream, parameter.*which);
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}

}  // namespace dist::test
