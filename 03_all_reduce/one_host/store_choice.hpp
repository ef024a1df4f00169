// What this file adds: whether a large result should bypass the caches. No rule is right on
// every processor, so each rank tries both ways and keeps the faster one.
//
// An ordinary store first reads the line into a cache. That is a waste if the result does not
// fit there, and a gain if it does, because the next call reads it. Which of the two holds
// depends on the size of the last cache and on how many ranks share it. The choice changes no
// bits, so ranks need not agree.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <limits>
#include <map>

namespace dist {

template <class Clock = std::chrono::steady_clock>
class StoreChoice {
 public:
  // Calls operation(past_caches), which writes `bytes` bytes.
  template <class Operation>
  void run(std::size_t bytes, Operation operation) {
    if (bytes < kSmallest) return operation(false);
    Trials& trials = trials_[static_cast<std::size_t>(std::bit_width(bytes))];
    if (trials.calls == kCalls) return operation(trials.per_byte[1] < trials.per_byte[0]);
    // Each way runs twice in a row, because a call is slow or fast depending on where the
    // previous one has left its result. Only the second of the two counts.
    const std::size_t call = trials.calls++;
    const std::size_t way = call / 2 % 2;
    const auto begin = Clock::now();
    operation(way == 1);
    const std::chrono::duration<double> took = Clock::now() - begin;
    if (call % 2 == 0) return;
    trials.per_byte[way] =
        std::min(trials.per_byte[way], took.count() / static_cast<double>(bytes));
  }

 private:
  // Results of this size or less fit into any processor's second-level cache.
  static constexpr std::size_t kSmallest = 128 * 1024;
  static constexpr std::size_t kCalls = 12;  // three times each way, twice in a row

  struct Trials {
    std::size_t calls = 0;
    std::array<double, 2> per_byte{std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::infinity()};
  };
  std::map<std::size_t, Trials> trials_;  // by the number of bits of the size
};

}  // namespace dist
