// The trainer's five parts. The reader writes one of them in each lesson's exercises. Each part
// is the reader's own code if its exercise is written, and otherwise the exercise's reference
// (choose_parts). part_N.cpp includes lesson N's part; there, the macro `exercise` gives it its
// own namespace, because the exercises form one program and may have helpers of the same name.
//
// The parts build on each other: sync_gradients calls ring_all_reduce, which sends its messages
// with ring_shift.
#pragma once

#include "common/check.hpp"
#include "common/communicator.hpp"
#include "common/watch.hpp"
#include "tools/exercises/confined.hpp"
#include "tools/exercises/not_started.hpp"

#include <mpi.h>

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
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

// Called on all ranks. Before training, runs each part once on a little data, and returns the
// first one whose result differs from that of the course's own function, or null. A mistake
// found here can be traced to a part; after training, it would only be a wrong parameter.
const Part* first_wrong_part(const Communicator& comm);

template <class Function>
auto run_part(Part& part, const Function& function) {
  const std::string name = std::string(part.yours ? "your " : "our ") + part.name;
  const CallScope scope(name);  // in a hang report
  const Confined confined(name.c_str(), [&](const std::string& what) {
    fmt::print(stderr, "WRONG: {} {}\n", name, what);
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, 1);
  });
  ++part.runs;
  try {
    return function();
  } catch (const exercise::NotStarted&) {
    throw Error(name + ": it calls something that is not written yet");
  } catch (const std::exception& error) {
    throw Error(name + ": " + error.what());
  }
}

}  // namespace dist::mine
