// What this file adds: a tensor cut into as many chunks as there are ranks.
// Everything that moves less than the whole tensor at a time is built on it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace dist {

struct ChunkRange {
  std::size_t begin;
  std::size_t count;
};

// Cuts `count` elements into `chunks` ranges whose lengths differ by at most one, the longer
// ones first. `index` is taken modulo `chunks`, so that chunk -1 is the last: on a ring every
// index wraps around.
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
