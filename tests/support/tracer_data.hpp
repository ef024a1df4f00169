// Test data in which every number shows its rank and its position on that rank.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "03_all_reduce/reduce_op.hpp"
#include "common/hash.hpp"
#include "tests/support/mpi_test.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dist::test {

inline std::vector<float> my_numbers(std::size_t count) {
  std::vector<float> numbers(count);
  fill_tracer_numbers(numbers, world().rank());
  return numbers;
}

inline bool all_from(const std::vector<float>& data, int rank) {
  return count_wrong(data, [&](std::size_t i) { return tracer_number(rank, i); }) == 0;
}

// Called on all ranks. Returns whether all of them have the same bits.
inline bool same_bits_everywhere(std::span<const float> data) {
  const std::vector<std::uint64_t> hashes = world().all_gather(hash_of(data));
  return std::ranges::count(hashes, hashes[0]) == world().size();
}

// The sum of element `index` over all ranks.
inline double sum_of_all(std::size_t index) {
  return tracer_sum(world().size(), index);
}

// How many numbers differ from the sum, the mean or the maximum of every rank's my_numbers. A
// mean may be off by `rounding`, relative to it.
inline std::size_t wrong_after(ReduceOp op, std::span<const float> result,
                               double rounding = 1.2e-7) {
  const int size = world().size();
  const auto want = [&](std::size_t i) {
    if (op == ReduceOp::max) return double{tracer_number(size - 1, i)};
    return op == ReduceOp::avg ? sum_of_all(i) / size : sum_of_all(i);
  };
  return count_wrong(result, want, op == ReduceOp::avg ? rounding : 0.0);
}

// Shifts `count` numbers to the right with send_recv, and then with isend and irecv.
template <class T>
void check_ring_shift(std::size_t count) {
  const auto numbers_of = [&](int rank) {
    std::vector<T> numbers(count);
    for (std::size_t i = 0; i < count; ++i) {
      numbers[i] = static_cast<T>(static_cast<std::size_t>(rank) * 29 + i % 97);
    }
    return numbers;
  };
  const std::vector<T> out = numbers_of(world().rank());
  const std::vector<T> wanted = numbers_of(world().left());
  std::vector<T> in(count);
  send_recv<T>(world(), out, world().right(), in, world().left());
  CHECK((in == wanted));
  in.assign(count, T{});
  Request receiving = irecv<T>(world(), in, world().left());
  Request sending = isend<T>(world(), out, world().right());
  receiving.wait();
  sending.wait();
  CHECK((in == wanted));
}

}  // namespace dist::test
