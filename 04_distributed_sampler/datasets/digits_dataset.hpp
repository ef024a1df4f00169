// Digits that need no download: ten glyphs drawn as strokes, 28 x 28 pixels like MNIST's. Each
// sample has its own shift, rotation, shear, thickness and noise.
#pragma once

#include "04_distributed_sampler/datasets/idx_dataset.hpp"

#include <cstddef>
#include <cstdint>

namespace dist {

// `count` images (at least 1), labelled 0 .. 9 in equal numbers and random order. The same
// arguments give the same bytes on every machine: only correctly rounded operations, no libm.
IdxDataset digits_dataset(std::size_t count, std::uint64_t seed);

// Lesson 5 uses these, whatever its --seed: as many samples as in the tests' subset of MNIST.
inline IdxDataset training_digits() {
  return digits_dataset(8000, 1);
}
inline IdxDataset test_digits() {
  return digits_dataset(2000, 2);
}

}  // namespace dist
