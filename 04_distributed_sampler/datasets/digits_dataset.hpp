// A digit set that needs no download: ten glyphs drawn as strokes, each sample with a shift,
// rotation, shear, thickness and noise of its own, 28 x 28 pixels like MNIST's.
#pragma once

#include "04_distributed_sampler/datasets/idx_dataset.hpp"

#include <cstddef>
#include <cstdint>

namespace dist {

// `count` images and their labels (0 .. 9, in equal parts, in random order), as the bytes of
// two IDX files. The same arguments give the same bytes on every machine: only exactly rounded
// operations, no libm.
struct DigitFiles {
  std::vector<std::uint8_t> images;
  std::vector<std::uint8_t> labels;
};
DigitFiles render_digits(std::size_t count, std::uint64_t seed);

// The same as a data set in memory.
IdxDataset digits_dataset(std::size_t count, std::uint64_t seed);

}  // namespace dist
