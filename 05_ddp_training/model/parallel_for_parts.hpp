// One loop over the elements of several tensors, which is one kernel on a GPU: launching one
// takes longer than updating a bias. PyTorch's multi_tensor_apply does the same.
//
//   parts    |     0     |  1 |        2       |
//   blocks   | 0 | 1 | 2 |  3 | 4 | 5 | 6 | 7  |
//
// A block has kBlock elements, and each part begins with a new one.
#pragma once

#include "05_ddp_training/model/parallel_for.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace dist {
namespace detail {

template <class Part, class Body>
struct OnPart {
  Body body;
  Part part;
  DIST_HOST_DEVICE void operator()(std::size_t i) const { body(part, i); }
};

// Maps one range of indices to the blocks of several parts. The table is an argument of the
// kernel, and these were limited to 4 KiB before CUDA 12.1.
template <std::size_t kBlock, class Part, class Body>
struct OnParts {
  static constexpr std::size_t kMost = 60;
  Body body;
  Part parts[kMost] = {};
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    std::size_t p = 0;
    for (; i >= blocks_of(parts[p].count, kBlock); ++p) i -= blocks_of(parts[p].count, kBlock);
    body(parts[p], i);
  }
};

}  // namespace detail

// Calls body(part, b) for every block b of kBlock elements of every part, which has
// part.count elements, and then last(), as parallel_for does. On a GPU, one kernel handles up
// to 60 parts. On a CPU, the loop over a part has its own copy of it.
template <std::size_t kBlock, class Part, class Body, class... Last>
void parallel_for_parts(const Stream& stream, std::span<const Part> parts, const Body& body,
                        unsigned* blocks_done = nullptr, const Last&... last) {
  if (stream.device().is_cpu()) {
    for (const Part& part : parts) {
      parallel_for(stream, blocks_of(part.count, kBlock),
                   detail::OnPart<Part, Body>{body, part});
    }
    (last(), ...);
    return;
  }
  using Table = detail::OnParts<kBlock, Part, Body>;
  static_assert(sizeof(Table) < 4096 - 512);
  while (!parts.empty()) {
    Table table{body};
    std::size_t blocks = 0;
    const auto some = parts.first(std::min(Table::kMost, parts.size()));
    for (const Part& part : some) blocks += blocks_of(part.count, kBlock);
    std::ranges::copy(some, table.parts);
    parts = parts.subspan(some.size());
    if (parts.empty()) {
      parallel_for(stream, blocks, table, blocks_done, last...);
    } else {
      parallel_for(stream, blocks, table);
    }
  }
}

}  // namespace dist
