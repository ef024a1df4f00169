// Look at: send_recv and all_reduce, through which the parts call each other, and run, through
// which everything calls the parts.
#include "tools/mine/parts.hpp"

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/binomial_tree.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/ring.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "common/watch.hpp"
#include "tools/exercises/confined.hpp"
#include "tools/exercises/not_started.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstdio>
#include <string>

// Lesson 3's part calls send_recv<float>(comm, out, comm.right(), in, comm.left()), and lesson
// 5's all_reduce<float>(comm, message, ReduceOp::avg, AllReduceAlgorithm::ring). Both get these
// overloads: they are more constrained than the lessons' own, so the compiler prefers them.
namespace dist::exercise_3 {
template <MpiScalar T>
requires std::same_as<T, float>
void send_recv(const Communicator& comm, std::span<const T> out, int dest, std::span<T> in,
               int source, int tag = 0) {
  if (dest == comm.right() && source == comm.left()) return mine::ring_shift(comm, out, in);
  dist::send_recv<T>(comm, out, dest, in, source, tag);
}
}  // namespace dist::exercise_3

namespace dist::exercise_5 {
template <MpiScalar T>
requires std::same_as<T, float>
void all_reduce(const Communicator& comm, std::span<T> data, ReduceOp op,
                AllReduceAlgorithm algorithm = AllReduceAlgorithm::recursive_doubling) {
  if (op == ReduceOp::avg && algorithm == AllReduceAlgorithm::ring) {
    return mine::ring_all_reduce(comm, data);
  }
  dist::all_reduce<T>(comm, data, op, algorithm);
}
}  // namespace dist::exercise_5

#include "chosen.hpp"

namespace dist::mine {
namespace {

Part all[] = {{"ring_shift", 1, exercise_1::kYours},
              {"tree_broadcast", 2, exercise_2::kYours},
              {"ring_all_reduce", 3, exercise_3::kYours},
              {"my_indices", 4, exercise_4::kYours},
              {"sync_gradients", 5, exercise_5::kYours}};

template <class Call>
void run(const Communicator& comm, Part& part, const Call& call) {
  const std::string name = std::string(part.yours ? "your " : "our ") + part.name;
  const CallScope scope(name);  // in a hang report
  const Confined confined(name.c_str(), [&](const std::string& what) {
    fmt::print(stderr, "WRONG: {} {}\n", name, what);
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, 1);
  });
  ++part.runs;
  try {
    call();
    comm.barrier();  // a message that the part did not send must not come from its comparison
  } catch (const NotStarted&) {
    throw Error(name + ": it calls something that is not written yet");
  } catch (const std::exception& error) {
    throw Error(name + ": " + error.what());
  }
}

// Compares what the part gave with what the course's own function gives, bit for bit.
template <class T>
void compare(Part& part, std::span<const T> got, const std::vector<T>& expected) {
  const auto wanted = std::as_bytes(std::span(expected));
  if (!std::ranges::equal(std::as_bytes(got), wanted)) part.wrong = true;
}

std::vector<float> joined(const std::vector<std::span<float>>& gradients) {
  std::vector<float> message;
  for (const auto& gradient : gradients) {
    message.insert(message.end(), gradient.begin(), gradient.end());
  }
  return message;
}

}  // namespace

std::span<const Part> parts() {
  return all;
}

void ring_shift(const Communicator& comm, std::span<const float> out, std::span<float> in) {
  run(comm, all[0], [&] { exercise_1::ring_shift(comm, out, in); });
  std::vector<float> expected(in.size());
  dist::send_recv<float>(comm, out, comm.right(), expected, comm.left());
  compare<float>(all[0], in, expected);
}

void tree_broadcast(const Communicator& comm, std::span<float> data, int root) {
  std::vector<float> expected(data.begin(), data.end());
  run(comm, all[1], [&] { exercise_2::tree_broadcast(comm, data, root); });
  broadcast_tree<float>(comm, expected, root);
  compare<float>(all[1], data, expected);
}

void ring_all_reduce(const Communicator& comm, std::span<float> data) {
  std::vector<float> expected(data.begin(), data.end());
  run(comm, all[2], [&] { exercise_3::ring_all_reduce(comm, data); });
  all_reduce_ring<float>(comm, expected, ReduceOp::avg);
  compare<float>(all[2], data, expected);
}

std::vector<std::size_t> my_indices(const Communicator& comm,
                                    std::span<const std::size_t> order) {
  std::vector<std::size_t> indices, expected;
  run(comm, all[3], [&] {
    indices = exercise_4::my_indices(order, comm.size(), comm.rank(), exercise_4::Policy::pad);
  });
  const DistributedSampler places(order.size(), comm.size(), comm.rank(), {.shuffle = false});
  for (const std::size_t place : places.indices()) expected.push_back(order[place]);
  compare<std::size_t>(all[3], indices, expected);
  return indices;
}

void sync_gradients(const Communicator& comm, const std::vector<std::span<float>>& gradients) {
  std::vector<float> expected = joined(gradients);
  run(comm, all[4], [&] { exercise_5::sync_gradients(comm, gradients); });
  all_reduce_ring<float>(comm, expected, ReduceOp::avg);
  compare<float>(all[4], joined(gradients), expected);
}

void average_as_the_course(const Communicator& comm,
                           const std::vector<std::span<float>>& gradients) {
  std::vector<float> message = joined(gradients);
  all_reduce_ring<float>(comm, message, ReduceOp::avg);
  auto next = message.begin();
  for (const auto& gradient : gradients) {
    std::copy_n(next, gradient.size(), gradient.begin());
    next += static_cast<std::ptrdiff_t>(gradient.size());
  }
}

}  // namespace dist::mine
