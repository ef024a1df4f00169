// PyTorch's random numbers: a seed gives the same bits as in PyTorch on an x86-64 CPU.
//
// PyTorch's generator is the classic 32-bit Mersenne Twister. To derive distributions from its
// output, PyTorch uses other formulas than <random>, so this file implements them. Each
// function follows the file named in its comment (under aten/src/ATen), and tests compare it
// with the output of PyTorch 1.13 (tests/golden).
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

namespace dist {

// One stream of random numbers (torch.Generator).
class Generator {
 public:
  // As in PyTorch, only the low 32 bits of the seed are used.
  explicit Generator(std::uint64_t seed) : engine_(static_cast<std::uint32_t>(seed)) {}

  std::uint32_t next_u32() { return static_cast<std::uint32_t>(engine_()); }
  // Combines two draws; the first gives the high half.
  std::uint64_t next_u64();

  // The second sample of a pair of normal numbers, kept for the next call of randn on fewer
  // than 16 elements (core/DistributionsHelper.h). Other kinds of draws do not discard it.
  std::optional<double> cached_normal;

 private:
  std::mt19937 engine_;
};

// Returns 0 .. n-1 in random order (torch.randperm, n < 2^31; native/TensorFactories.cpp).
std::vector<std::size_t> randperm(std::size_t n, Generator& generator);

// Returns random integers from low to high - 1 (torch.randint; core/TransformationHelper.h).
// Newer versions of PyTorch draw other numbers if high - low is at least 2^28.
// Throws Error unless low < high.
std::vector<std::int64_t> randint(std::int64_t low, std::int64_t high, std::size_t count,
                                  Generator& generator);

// Uniform in [low, high) (Tensor.uniform_; native/cpu/DistributionTemplates.h).
void fill_uniform(std::span<float> values, double low, double high, Generator& generator);

// Normal, mean 0, standard deviation 1 (torch.randn; native/cpu/DistributionTemplates.h).
void fill_normal(std::span<float> values, Generator& generator);

// Draws first a weight of shape (out, in) and then a bias of shape (out), like nn.Linear
// (torch/nn/modules/linear.py, torch/nn/init.py). `inputs` is the layer's `in`.
void init_linear(std::span<float> weight, std::span<float> bias, std::size_t inputs,
                 Generator& generator);

}  // namespace dist
