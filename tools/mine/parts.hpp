// The trainer's five parts. The reader writes one of them in each lesson's exercises. Each part
// is the reader's own code if its exercise is written, and otherwise the exercise's reference
// (choose_parts).
//
// The parts build on each other: sync_gradients calls ring_all_reduce, which sends its messages
// with ring_shift.
#pragma once

#include "common/communicator.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dist::mine {

struct Part {
  const char* name;  // of the exercise and its function
  int lesson;
  bool yours;
  std::uint64_t runs = 0;  // on this rank
};

extern Part ring_shift_part, tree_broadcast_part, ring_all_reduce_part, my_indices_part,
    sync_gradients_part;

inline std::array<Part*, 5> parts() {
  return {&ring_shift_part, &tree_broadcast_part, &ring_all_reduce_part, &my_indices_part,
          &sync_gradients_part};
}

// Each function counts its calls, and throws Error with the part's name if the part throws. The
// contracts are in NN_x/exercise/NAME.hpp. my_indices drops or pads the remainder.
void ring_shift(const Communicator& comm, std::span<const float> out, std::span<float> in);
void tree_broadcast(const Communicator& comm, std::span<float> data, int root);
void ring_all_reduce(const Communicator& comm, std::span<float> data);
std::vector<std::size_t> my_indices(std::span<const std::size_t> order, int num_replicas,
                                    int rank, bool drop_last);
void sync_gradients(const Communicator& comm, const std::vector<std::span<float>>& gradients);

}  // namespace dist::mine
