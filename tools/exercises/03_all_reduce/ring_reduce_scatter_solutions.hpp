// Known solutions of the exercise ring_reduce_scatter: the reference, and others, right and
// wrong. More are in ring_reduce_scatter_changes.toml.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"

#include <span>
#include <vector>

namespace dist::exercise {

// == reference | done
inline void ring_reduce_scatter_reference(const Communicator& comm, std::span<float> data) {
  const int size = comm.size();
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), size, index));
  };
  for (int step = 0; step < size - 1; ++step) {
    const std::span<float> out = chunk(comm.rank() - 1 - step);
    const std::span<float> in = chunk(comm.rank() - 2 - step);
    std::vector<float> spare(in.size());
    send_recv<float>(comm, out, comm.right(), spare, comm.left());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] += spare[i];
  }
}

// == whole-tensor | bytes | send one chunk per step
// Moves the whole tensor: the sums are right, but it sends N times the bytes.
inline void ring_reduce_scatter_whole_tensor(const Communicator& comm, std::span<float> data) {
  const int size = comm.size();
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), size, index));
  };
  std::vector<float> passing(data.begin(), data.end());
  for (int step = 0; step < size - 1; ++step) {
    const std::span<float> in = data;
    std::vector<float> spare(in.size());
    send_recv<float>(comm, passing, comm.right(), spare, comm.left());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] += spare[i];
    passing.swap(spare);
  }
}

// == one-step-short | shares | the last step is missing
inline void ring_reduce_scatter_one_step_short(const Communicator& comm,
                                               std::span<float> data) {
  const auto chunk = [&](int c) {
    return window(data, chunk_range(data.size(), comm.size(), c));
  };
  for (int step = 1; step + 1 < comm.size(); ++step) {
    const std::span<float> in = chunk(comm.rank() - step - 1);
    std::vector<float> arrived(in.size());
    send_recv<float>(comm, chunk(comm.rank() - step), comm.right(), arrived, comm.left());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] += arrived[i];
  }
}

// == same-chunk-again | shares | what was passed on was not the sum
// Sends its first chunk in every step.
inline void ring_reduce_scatter_same_chunk_again(const Communicator& comm,
                                                 std::span<float> data) {
  const auto chunk = [&](int c) {
    return window(data, chunk_range(data.size(), comm.size(), c));
  };
  const std::size_t longest = chunk(0).size();
  std::vector<float> first(longest);
  std::ranges::copy(chunk(comm.rank() - 1), first.begin());
  for (int step = 1; step < comm.size(); ++step) {
    const std::span<float> in = chunk(comm.rank() - step - 1);
    std::vector<float> arrived(in.size());
    const std::size_t count = chunk(comm.rank() - step).size();
    send_recv<float>(comm, std::span(first).first(count), comm.right(), arrived, comm.left());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] += arrived[i];
  }
}

// == divides | shares | this half only adds
inline void ring_reduce_scatter_divides(const Communicator& comm, std::span<float> data) {
  ring_reduce_scatter_reference(comm, data);
  for (float& value : data) value /= static_cast<float>(comm.size());
}

// == on-a-copy | shares | is a copy, in other memory
// Adds up in a copy, which is gone when the call returns.
inline void ring_reduce_scatter_on_a_copy(const Communicator& comm, std::span<float> data) {
  std::vector<float> copy(data.begin(), data.end());
  ring_reduce_scatter_reference(comm, copy);
}

// == in-two-pieces | messages | use one send_recv per step
// Sends each chunk as two messages.
inline void ring_reduce_scatter_in_two_pieces(const Communicator& comm, std::span<float> data) {
  const auto chunk = [&](int c) {
    return window(data, chunk_range(data.size(), comm.size(), c));
  };
  for (int step = 1; step < comm.size(); ++step) {
    const std::span<float> out = chunk(comm.rank() - step);
    const std::span<float> in = chunk(comm.rank() - step - 1);
    std::vector<float> arrived(in.size());
    const std::span<float> room(arrived);
    send_recv<float>(comm, out.first(out.size() / 2), comm.right(), room.first(in.size() / 2),
                     comm.left());
    send_recv<float>(comm, out.subspan(out.size() / 2), comm.right(),
                     room.subspan(in.size() / 2), comm.left());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] += arrived[i];
  }
}

}  // namespace dist::exercise
