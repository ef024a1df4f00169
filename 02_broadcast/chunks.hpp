// What this file adds: a tensor cut into one chunk per rank. Every algorithm that moves one
// part of a tensor at a time builds on this file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace dist {

struct ChunkRange {
  std::size_t begin, count;
};

// Returns the range of chunk `index` when `count` elements are cut into `chunks` chunks. The
// chunks' lengths differ by at most one, and the longer chunks come first. `index` is taken
// modulo `chunks`, so that it wraps around as on a ring: chunk -1 is the last.
inline ChunkRange chunk_range(std::size_t count, int chunks, int index) {
  const auto n = static_cast<std::size_t>(chunks);
  const auto i = static_cast<std::size_t>((index % chunks + chunks) % chunks);
  const std::size_t longer = count % n;
  return {i * (count / n) + std::min(i, longer), count / n + (i < longer ? 1 : 0)};
}

template <class T>
std::span<T> window(std::span<T> data, ChunkRange range) {
  return data.subspan(range.begin, range.count);
}

}  // namespace dist
