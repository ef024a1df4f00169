// The messages of a solution in small runs, beside those of ours: what a learner would write
// down with pencil and paper. judge.py shows the first run in which they differ
// (message_table.py).
#pragma once

#include "common/communicator.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dist::exercise {

// How each rank begins in a small run.
struct SmallRun {
  std::vector<std::size_t> lengths;  // by rank: how many numbers it has
  int root = 0;                      // if the exercise has one
};

// A solution in the form in which it can be drawn.
struct Drawn {
  // Called on all ranks, each with its own numbers. Returns the numbers for which the contract
  // promises something.
  std::function<std::vector<float>(const Communicator&, std::vector<float>, int root)> run;
  // On this many ranks, shortest first. A run without numbers sends something else.
  std::function<std::vector<SmallRun>(int ranks)> runs;
  bool chunks = false;  // the numbers are a tensor that is cut into a chunk per rank
  // A row is a round of messages, and not a message of each rank: any order is right that takes
  // as few rounds as ours, or as this number.
  std::optional<std::uint64_t> rounds{};
  bool in_order = false;  // each message must travel in the same round as ours
  // An average may be divided at any time, so this is no difference between two messages.
  bool divides_anywhere = false;
};

struct Drawing {
  Drawn yours, ours;
};

// Called on all ranks of `comm`. From `smallest` ranks to all, runs both until their messages
// or their results differ, and writes that run to `file` as JSON, or the last one if none
// differs.
void draw(const Communicator& comm, const Drawing& drawing, int smallest,
          const std::string& file);

}  // namespace dist::exercise
