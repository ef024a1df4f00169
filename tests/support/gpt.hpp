// Shared by the tests of the GPT: random tokens, and numbers of a model's.
#pragma once

#include "05_ddp_training/advanced/gpt/gpt.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "tests/support/lesson05.hpp"

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace dist::test {

// Sequences, and what should follow each of their tokens.
struct Tokens {
  Tokens(std::size_t sequences, std::size_t length, std::size_t kinds, Device device = {},
         std::uint64_t seed = 3)
      : ids({sequences, length}, device), targets(sequences * length, device) {
    Generator generator(seed);
    const Stream stream(device);
    const auto random =
        randint(0, static_cast<std::int64_t>(kinds), 2 * targets.size(), generator);
    const auto half = random.begin() + static_cast<std::ptrdiff_t>(targets.size());
    copy(stream, ids, upload(stream, Floats(random.begin(), half), ids.shape()));
    const std::vector<std::int32_t> rest(half, random.end());
    copy_bytes(stream, targets.data(), rest.data(), targets.size_bytes());
    stream.synchronize();
  }
  std::span<const std::int32_t> all_targets() const { return {targets.data(), targets.size()}; }
  // Some sequences, as a batch.
  Batch batch(std::size_t begin, std::size_t count, Batch::Place place = {}) const {
    const std::size_t length = ids.dim(1);
    return {ids.narrow(begin * length, count * length).view({count, length}),
            all_targets().subspan(begin * length, count * length), place};
  }

  Tensor ids;
  Buffer<std::int32_t> targets;
};

// A GPT whose parameters are far from 0 and 1, where mistakes may have no effect.
inline Gpt stirred(const GptShape& shape, const Stream& stream) {
  Generator generator(1);
  Gpt model(shape, generator, stream);
  for (const Parameter& parameter : model.parameters()) {
    Floats numbers = to_host(stream, parameter.value);
    Floats noise(numbers.size());
    fill_normal(noise, generator);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += 0.2F * noise[i];
    copy(stream, parameter.value, upload(stream, numbers, parameter.value.shape()));
    stream.synchronize();
  }
  return model;
}

inline Floats gradients_of(const Module& model, const Stream& stream) {
  Floats all;
  for (const Parameter& parameter : model.parameters()) {
    const Floats some = to_host(stream, parameter.grad);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// The norm of the difference, relative to that of `right`.
inline double relative(std::span<const float> found, std::span<const float> right) {
  if (found.size() != right.size()) return HUGE_VAL;
  double off = 0, all = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    off += std::pow(double{found[i]} - right[i], 2);
    all += std::pow(double{right[i]}, 2);
  }
  return std::sqrt(off / all);
}

}  // namespace dist::test
