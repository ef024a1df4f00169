// Right and wrong flat gradient syncs. Each wrong one is a mistake that is easily made;
// solutions.txt says which check finds it.
#include "tests/exercises/05_ddp_training/reference/sync_gradients.hpp"
#include "tests/exercises/05_ddp_training/solutions/solutions.hpp"

#include <algorithm>
#include <numeric>

namespace dist::exercise {
namespace {

std::vector<float> packed(std::span<const std::span<float>> gradients) {
  std::vector<float> message;
  for (const auto& gradient : gradients) {
    message.insert(message.end(), gradient.begin(), gradient.end());
  }
  return message;
}

void unpack(std::span<const float> message, std::span<const std::span<float>> gradients) {
  for (const auto& gradient : gradients) {
    std::ranges::copy(message.first(gradient.size()), gradient.begin());
    message = message.subspan(gradient.size());
  }
}

void ring(const Communicator& comm, std::span<float> message, ReduceOp op = ReduceOp::avg) {
  all_reduce<float>(comm, message, op, AllReduceAlgorithm::ring);
}

// Right, differently written: an offset, an average made by hand, and the halves of the ring.
void by_offsets(const Communicator& comm, const Gradients& gradients) {
  std::size_t total = 0;
  for (const auto& gradient : gradients) total += gradient.size();
  std::vector<float> message(total);
  std::size_t offset = 0;
  for (const auto& gradient : gradients) {
    for (const float value : gradient) {
      message[offset++] = value / static_cast<float>(comm.size());
    }
  }
  ring_reduce_scatter<float>(comm, message, ReduceOp::sum);
  ring_all_gather<float>(comm, message);
  offset = 0;
  for (const auto& gradient : gradients) {
    for (float& value : gradient) value = message[offset++];
  }
}

// Right: the biases first. Any order does that is the same on all ranks, and there and back.
void last_first(const Communicator& comm, const Gradients& gradients) {
  const Gradients reversed(gradients.rbegin(), gradients.rend());
  std::vector<float> message = packed(reversed);
  ring(comm, message);
  unpack(message, reversed);
}

void forgets_to_copy_back(const Communicator& comm, const Gradients& gradients) {
  std::vector<float> message = packed(gradients);
  ring(comm, message);
}

void skips_the_last(const Communicator& comm, const Gradients& gradients) {
  if (gradients.size() < 2) return sync_gradients(comm, gradients);
  const auto some = std::span(gradients).first(gradients.size() - 1);
  std::vector<float> message = packed(some);
  ring(comm, message);
  unpack(message, some);
}

// A bias of one number will not matter.
void skips_short_ones(const Communicator& comm, const Gradients& gradients) {
  Gradients some;
  for (const auto& gradient : gradients) {
    if (gradient.size() > 3) some.push_back(gradient);
  }
  sync_gradients(comm, some);
}

void sums(const Communicator& comm, const Gradients& gradients) {
  std::vector<float> message = packed(gradients);
  ring(comm, message, ReduceOp::sum);
  unpack(message, gradients);
}

void divides_twice(const Communicator& comm, const Gradients& gradients) {
  sync_gradients(comm, gradients);
  for (const auto& gradient : gradients) {
    for (float& value : gradient) value /= static_cast<float>(comm.size());
  }
}

void divides_by_parameters(const Communicator& comm, const Gradients& gradients) {
  sums(comm, gradients);
  for (const auto& gradient : gradients) {
    for (float& value : gradient) value /= static_cast<float>(gradients.size());
  }
}

// In by one order, out by the other.
void back_in_another_order(const Communicator& comm, const Gradients& gradients) {
  std::vector<float> message = packed(gradients);
  ring(comm, message);
  unpack(message, Gradients(gradients.rbegin(), gradients.rend()));
}

// Each rank sorts by what its own gradients hold: they add up gradients of different layers.
void in_its_own_order(const Communicator& comm, const Gradients& gradients) {
  Gradients mine = gradients;
  if (!mine.empty()) {
    std::rotate(mine.begin(),
                mine.begin() + comm.rank() % static_cast<std::ptrdiff_t>(mine.size()),
                mine.end());
  }
  sync_gradients(comm, mine);
}

void per_parameter(const Communicator& comm, const Gradients& gradients) {
  for (const auto& gradient : gradients) ring(comm, gradient);
}

// All rows of a table as long as the longest gradient.
void pads_to_the_longest(const Communicator& comm, const Gradients& gradients) {
  std::size_t longest = 0;
  for (const auto& gradient : gradients) longest = std::max(longest, gradient.size());
  std::vector<float> message(longest * gradients.size());
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    std::ranges::copy(gradients[k], message.begin() + static_cast<std::ptrdiff_t>(k * longest));
  }
  ring(comm, message);
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    std::ranges::copy(std::span(message).subspan(k * longest, gradients[k].size()),
                      gradients[k].begin());
  }
}

void mpi_does_it(const Communicator& comm, const Gradients& gradients) {
  std::vector<float> message = packed(gradients);
  all_reduce<float>(comm, message, ReduceOp::avg, AllReduceAlgorithm::mpi);
  unpack(message, gradients);
}

// Subtracts what is new from what was there, and adds it again: rounds on each rank by itself.
void through_a_difference(const Communicator& comm, const Gradients& gradients) {
  const std::vector<float> before = packed(gradients);
  std::vector<float> message = before;
  ring(comm, message);
  for (std::size_t i = 0; i < message.size(); ++i) {
    message[i] = before[i] + (message[i] - before[i]);
  }
  unpack(message, gradients);
}

}  // namespace

std::vector<Solution> sync_solutions() {
  const auto known = [](const char* name, const SyncGradients& solution) {
    return Solution{"sync_gradients", name, checks_of_sync_gradients(solution)};
  };
  return {
      known("reference", sync_gradients),
      known("by-offsets", by_offsets),
      known("last-first", last_first),
      known("no-copy-back", forgets_to_copy_back),
      known("skips-last", skips_the_last),
      known("skips-short", skips_short_ones),
      known("sum", sums),
      known("divides-twice", divides_twice),
      known("by-parameters", divides_by_parameters),
      known("other-order", back_in_another_order),
      known("own-order", in_its_own_order),
      known("per-parameter", per_parameter),
      known("padded", pads_to_the_longest),
      known("mpi", mpi_does_it),
      known("difference", through_a_difference),
  };
}

}  // namespace dist::exercise
