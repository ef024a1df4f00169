// A small model with a tied weight, and text for it.
#pragma once

#include "05_ddp_training/break_it/tied_model.hpp"
#include "tests/support/lesson05.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dist::test {

inline constexpr TiedModel::Options kSmallTied{.characters = 11, .width = 6};

// Sentences of random characters.
struct Text {
  explicit Text(std::size_t rows, std::uint64_t seed = 3)
      : inputs({rows, TiedModel::kContext}, Device{}) {
    Generator generator(seed);
    const auto random = randint(0, kSmallTied.characters, inputs.numel() + rows, generator);
    std::ranges::copy_n(random.begin(), static_cast<std::ptrdiff_t>(inputs.numel()),
                        inputs.span().begin());
    for (std::size_t i = inputs.numel(); i < random.size(); ++i) {
      targets.push_back(static_cast<std::int32_t>(random[i]));
    }
  }
  Tensor rows(std::size_t begin, std::size_t count) const {
    return inputs.narrow(begin * TiedModel::kContext, count * TiedModel::kContext)
        .view({count, TiedModel::kContext});
  }

  Tensor inputs;
  std::vector<std::int32_t> targets;
};

inline Floats all_gradients(const Module& model) {
  Floats all;
  for (const Parameter& parameter : model.parameters()) {
    all.insert(all.end(), parameter.grad.span().begin(), parameter.grad.span().end());
  }
  return all;
}

}  // namespace dist::test
