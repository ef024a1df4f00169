// Words for what a message of a small run contains (drawing.cpp): "chunk 3: ad", "a0 a1".
#pragma once

#include "02_broadcast/chunks.hpp"
#include "common/join.hpp"
#include "common/watch.hpp"
#include "tools/exercises/drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace dist::exercise {

// Of a sum: `times` the number `index` of `rank`.
struct Term {
  int rank;
  std::size_t index;
  float times;
};
using Numbers = std::vector<std::vector<Term>>;  // each is a sum

// What this rank has done in a small run.
struct Part {
  struct Message {
    Traffic::Message at;
    std::uint64_t bytes;
    Numbers numbers;
  };
  std::vector<Message> sent;
  std::vector<int> left;  // the senders of messages that this rank has not received
  Numbers has;            // in the end
  bool examined = false;  // by at least one experiment
  bool steady = true;     // it did the same in every experiment
};

inline const std::string kUnknown = "unknown";  // is not made of the ranks' numbers

// "acd", "a2b" if b is counted twice, "abcd/4" for an average.
inline std::string letters(const std::vector<Term>& sum, int ranks) {
  for (const int divisor : {1, ranks, ranks * ranks}) {
    std::string text;
    for (const auto& [rank, index, factor] : sum) {
      const float times = factor * static_cast<float>(divisor);
      if (!(times > 0.5F && times < 99 && std::abs(times - std::round(times)) < 1e-4F)) break;
      if (std::round(times) != 1) text += fmt::format("{}", std::round(times));
      text += static_cast<char>('a' + rank);
    }
    const bool complete =
        std::ranges::count_if(text, [](char c) { return c >= 'a'; }) == std::ssize(sum);
    if (complete) return divisor == 1 ? text : fmt::format("{}/{}", text, divisor);
  }
  return kUnknown;
}

// Puts the content of messages into words.
struct Words {
  const Drawn& drawn;
  const SmallRun& small;
  int ranks;

  int chunk_of(std::size_t index) const {
    const std::size_t count = small.lengths.front();
    int chunk = 0;
    while (chunk_range(count, ranks, chunk).begin + chunk_range(count, ranks, chunk).count <=
           index) {
      ++chunk;
    }
    return chunk;
  }

  // "chunk 3: ad", "chunks 0 1 2: b" for a longer message, "part of chunk 0: a" for a shorter.
  std::string in_chunks(const Numbers& numbers) const {
    struct Group {
      std::string what;
      std::vector<int> chunks;  // none for zeros, which come from nowhere
      std::size_t count;
    };
    std::vector<Group> groups;  // of neighbouring numbers that contain the same
    for (const std::vector<Term>& sum : numbers) {
      if (sum.empty()) {
        if (groups.empty() || !groups.back().chunks.empty()) groups.push_back({"zeros", {}, 0});
        ++groups.back().count;
        continue;
      }
      const int chunk = chunk_of(sum.front().index);
      const bool mixed = std::ranges::any_of(
          sum, [&](const Term& term) { return term.index != sum.front().index; });
      const std::string what = mixed ? "mixed" : letters(sum, ranks);
      if (groups.empty() || groups.back().what != what) groups.push_back({what, {}, 0});
      Group& group = groups.back();
      if (group.chunks.empty() || group.chunks.back() != chunk) group.chunks.push_back(chunk);
      ++group.count;
    }
    std::vector<std::string> texts;
    for (const auto& [what, chunks, count] : groups) {
      if (chunks.empty()) {
        texts.push_back(count == numbers.size()
                            ? what
                            : fmt::format("{} zero{}", count, count == 1 ? "" : "s"));
        continue;
      }
      std::size_t whole = 0;
      for (const int chunk : chunks)
        whole += chunk_range(small.lengths.front(), ranks, chunk).count;
      texts.push_back(fmt::format("{}chunk{} {}: {}", count < whole ? "part of " : "",
                                  chunks.size() == 1 ? "" : "s", join(chunks, " "), what));
    }
    return join(texts, ", ");
  }

  // "a" for all numbers of rank 0, "a0 a1" for some of them.
  std::string in_numbers(const Numbers& numbers) const {
    std::vector<std::string> texts;
    bool in_order = true;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::vector<Term>& sum = numbers[i];
      const std::string what = sum.empty() ? "0" : letters(sum, ranks);
      if (what == kUnknown) {
        const std::size_t rest = numbers.size() - i;
        return i == 0 ? fmt::format("{} unknown numbers", rest)
                      : fmt::format("{} and {} others", join(texts, " "), rest);
      }
      texts.push_back(sum.empty() ? what : fmt::format("{}{}", what, sum.front().index));
      in_order = in_order && !sum.empty() && sum.front().index == i &&
                 sum.front().rank == numbers[0].front().rank;
    }
    if (!in_order) return join(texts, " ");
    const auto rank = static_cast<std::size_t>(numbers[0].front().rank);
    const bool all = numbers.size() == small.lengths[rank];
    return all ? letters(numbers[0], ranks) : join(texts, " ");
  }

  std::string of(const Numbers& numbers) const {
    if (numbers.empty()) return "0 numbers";
    return drawn.chunks ? in_chunks(numbers) : in_numbers(numbers);
  }
  std::string of(const Part::Message& message) const {
    if (message.bytes != message.numbers.size() * sizeof(float) ||
        std::ranges::all_of(small.lengths, [](std::size_t length) { return length == 0; })) {
      return fmt::format("{} bytes", message.bytes);
    }
    return of(message.numbers);
  }
};

}  // namespace dist::exercise
