// Known solutions of the exercise ring_all_gather: the reference, and others, right and wrong.
// More are in ring_all_gather_changes.toml.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace dist::exercise {

// == reference | done
inline void ring_all_gather_reference(const Communicator& comm, std::span<float> data) {
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  for (int step = 0; step < comm.size() - 1; ++step) {
    const std::span<float> out = chunk(comm.rank() - step);
    const std::span<float> in = chunk(comm.rank() - 1 - step);
    send_recv<float>(comm, out, comm.right(), in, comm.left());
  }
}

// == copies-padding | guard-zones | receive exactly as many elements as the arriving chunk has
// Gathers the chunks in places of equal length, and copies the padding along with each chunk.
inline void ring_all_gather_copies_padding(const Communicator& comm, std::span<float> data) {
  const auto range = [&](int index) { return chunk_range(data.size(), comm.size(), index); };
  const std::size_t longest = range(0).count;
  std::vector<std::vector<float>> gathered(static_cast<std::size_t>(comm.size()),
                                           std::vector<float>(longest));
  const auto place = [&](int index) {
    const int chunk = (index + comm.size()) % comm.size();
    return std::span(gathered[static_cast<std::size_t>(chunk)]).first(range(chunk).count);
  };
  std::ranges::copy(window(data, range(comm.rank())), place(comm.rank()).begin());
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, place(comm.rank() - step), comm.right(),
                     place(comm.rank() - 1 - step), comm.left());
  }
  // The next chunk overwrites a chunk's padding, but nothing follows the last chunk.
  for (int c = 0; c < comm.size(); ++c) {
    std::ranges::copy(gathered[static_cast<std::size_t>(c)], data.data() + range(c).begin);
  }
}

// == whole-tensor | bytes | only the chunk that has just arrived
// Sends the whole tensor in every step, and takes only one chunk of what arrives.
inline void ring_all_gather_whole_tensor(const Communicator& comm, std::span<float> data) {
  std::vector<float> arrived(data.size());
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, data, comm.right(), arrived, comm.left());
    const ChunkRange in = chunk_range(data.size(), comm.size(), comm.rank() - 1 - step);
    std::ranges::copy(window(std::span(arrived), in), window(data, in).begin());
  }
}

// == pieces-first | large | If every rank sends first, none receives
// Cuts chunks larger than 64 KiB into pieces, and sends them before it receives any.
inline void ring_all_gather_pieces_first(const Communicator& comm, std::span<float> data) {
  constexpr std::size_t kPiece = 16 * 1024;  // elements
  for (int step = 0; step < comm.size() - 1; ++step) {
    const int first = comm.rank() - step;
    std::span<float> out = window(data, chunk_range(data.size(), comm.size(), first));
    std::span<float> in = window(data, chunk_range(data.size(), comm.size(), first - 1));
    for (; out.size() > kPiece; out = out.subspan(kPiece)) {
      send<float>(comm, out.first(kPiece), comm.right());
    }
    for (; in.size() > kPiece; in = in.subspan(kPiece)) {
      recv<float>(comm, in.first(kPiece), comm.left());
    }
    send_recv<float>(comm, out, comm.right(), in, comm.left());  // all of a small chunk
  }
}

// == on-a-copy | values | is a copy, in other memory
// Gathers into a copy.
inline void ring_all_gather_on_a_copy(const Communicator& comm, std::span<float> data) {
  std::vector<float> copy(data.begin(), data.end());
  ring_all_gather_reference(comm, copy);
}

// == leftward | rightward | moves one rank to the right
// Everything arrives, but the other way around.
inline void ring_all_gather_leftward(const Communicator& comm, std::span<float> data) {
  const auto chunk = [&](int c) {
    return window(data, chunk_range(data.size(), comm.size(), c));
  };
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, chunk(comm.rank() + step), comm.left(),
                     chunk(comm.rank() + step + 1), comm.right());
  }
}

}  // namespace dist::exercise
