// The trainer's five parts. The reader writes one of them in each lesson's exercises. Each part
// is the reader's own code if its exercise is written, and otherwise the exercise's reference
// (choose_parts). They build on each other: sync_gradients calls ring_all_reduce, which sends
// its messages with ring_shift.
#pragma once

#include "common/communicator.hpp"

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
  bool wrong = false;      // on this rank: the course's own function gave another result
};

std::span<const Part> parts();

// Called on all ranks. Each function counts its calls, compares each result with that of the
// course's own function, and throws Error with the part's name if the part throws. The
// contracts are in NN_x/exercise/NAME.hpp. my_indices pads the remainder.
void ring_shift(const Communicator& comm, std::span<const float> out, std::span<float> in);
void tree_broadcast(const Communicator& comm, std::span<float> data, int root);
void ring_all_reduce(const Communicator& comm, std::span<float> data);
std::vector<std::size_t> my_indices(const Communicator& comm,
                                    std::span<const std::size_t> order);
void sync_gradients(const Communicator& comm, const std::vector<std::span<float>>& gradients);

// What sync_gradients does, with the course's own ring all-reduce.
void average_as_the_course(const Communicator& comm,
                           const std::vector<std::span<float>>& gradients);

}  // namespace dist::mine
