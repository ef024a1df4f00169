// Finds out which ranks' shares a sum contains, and how often: rank r's share is 8^r, so in
// base 8 the sum has one digit per rank. A float holds the sum exactly for up to 7 ranks, even
// if each share is counted up to seven times.
#pragma once

#include <cstdint>
#include <string>

namespace dist::exercise {

inline float share_of(int rank) {
  return static_cast<float>(1U << (3U * static_cast<unsigned>(rank)));
}

inline float all_shares(int ranks) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += share_of(rank);
  return sum;
}

// Returns, for example, "rank 2's share is missing, rank 0's counted 2 times"; empty if every
// share is counted exactly once.
inline std::string what_is_off(float sum, int ranks) {
  if (!(sum >= 0 && sum < 2 * share_of(7))) return "this is not a sum of the ranks' shares";
  std::string text;
  auto rest = static_cast<std::uint32_t>(sum);
  for (int rank = 0; rank < ranks; ++rank, rest >>= 3U) {
    const std::uint32_t times = rest & 7U;
    if (times == 1) continue;
    if (!text.empty()) text += ", ";
    text += "rank " + std::to_string(rank) + "'s share is " +
            (times == 0 ? "missing" : "counted " + std::to_string(times) + " times");
  }
  return text;
}

}  // namespace dist::exercise
