// Scatter and a leftward all-gather: values from every root, messages, peers, bytes.
#include "tests/exercises/02_broadcast/broadcasts.hpp"
#include "tests/support/counted.hpp"

#include <algorithm>
#include <numeric>

namespace dist::exercise {
namespace {

const std::string kHangHint =
    "the report says where each rank waits. In the scatter the root sends to every other rank, "
    "and each of those receives once, from the root. In the ring everybody sends and receives "
    "in every step: a plain send may wait for its receiver, and all of them in a circle wait "
    "for ever, so use send_recv, which does both at once";

constexpr std::size_t kChunk = 100;  // elements

Traffic traffic_of(const Trial& trial, const Broadcast& solution, int root) {
  std::vector<float> data(static_cast<std::size_t>(trial.size()) * kChunk, 1.0F);
  return counted(trial.comm(), [&] { solution(trial.comm(), data, root); });
}

std::uint64_t others(const Trial& trial) {
  return static_cast<std::uint64_t>(trial.size() - 1);
}

void check_messages(Trial& trial, const Broadcast& solution) {
  const std::uint64_t each = others(trial);
  for (int root = 0; root < trial.size(); ++root) {
    const Traffic traffic = traffic_of(trial, solution, root);
    trial.expect(traffic.messages_per_rank == 2 * each, [&] {
      return fmt::format("{}a rank sends up to {} messages, must be {}", from_root(root),
                         traffic.messages_per_rank, 2 * each);
    });
    // The root's to deal out, and everybody's round the ring.
    const std::uint64_t must = each + each * static_cast<std::uint64_t>(trial.size());
    trial.expect(traffic.messages == must, [&] {
      return fmt::format("{}{} messages in all, must be {}", from_root(root), traffic.messages,
                         must);
    });
  }
}

// Rank 0's, which for the other roots is in every place of the ring.
void check_peers(Trial& trial, const Broadcast& solution) {
  for (int root = 0; root < trial.size(); ++root) {
    std::vector<int> must(1, trial.size() - 1);
    if (root == 0) {
      must.resize(static_cast<std::size_t>(trial.size() - 1));
      std::iota(must.begin(), must.end(), 1);
    }
    const Traffic traffic = traffic_of(trial, solution, root);
    trial.expect(traffic.peers == must, [&] {
      return fmt::format("{}rank 0 sends to ranks {}, must be {}", from_root(root),
                         fmt::join(traffic.peers, " "), fmt::join(must, " "));
    });
  }
}

void check_bytes(Trial& trial, const Broadcast& solution) {
  for (int root = 0; root < trial.size(); ++root) {
    const Traffic traffic = traffic_of(trial, solution, root);
    const std::uint64_t must = 2 * others(trial) * kChunk * sizeof(float);
    trial.expect(traffic.bytes_per_rank == must, [&] {
      return fmt::format("{}{} elements: a rank sends up to {} bytes, must be {}",
                         from_root(root), static_cast<std::size_t>(trial.size()) * kChunk,
                         traffic.bytes_per_rank, must);
    });
  }
}

}  // namespace

std::vector<Check> checks_of_scatter_all_gather(const Broadcast& solution) {
  return {
      {"root-0", "rank 0's numbers are on all ranks, a chunk of one each",
       "after the scatter rank r has chunk r. At step s = 0, 1, ... it sends chunk r + s, "
       "which "
       "it received the step before, to the left, and receives chunk r + 1 + s from the right",
       [=](Trial& trial) {
         check_broadcast(trial, solution, static_cast<std::size_t>(trial.size()), 0);
       },
       kHangHint},
      guard_check(
          solution,
          "chunks differ in length by one when N does not divide the number of "
          "elements, and may be empty: ask chunk_range for each that you send or receive",
          kHangHint),
      {"values",
       "the root's numbers are on all ranks, whoever the root is, whatever the length",
       "the root is not always rank 0, and has its own chunk already; chunks differ in length "
       "by one when N does not divide the number of elements: ask chunk_range for each, do not "
       "compute with length / N",
       [=](Trial& trial) {
         for (int root = 0; root < trial.size(); ++root) {
           for (const std::size_t count : sizes(trial)) {
             check_broadcast(trial, solution, count, root);
           }
         }
       },
       kHangHint},
      {"no-collective", "it is made of single messages", kCollectiveHint,
       [=](Trial& trial) { expect_no_collective(trial, traffic_of(trial, solution, 0)); },
       kHangHint},
      {"messages", "the root sends 2 (N - 1) messages, every other rank N - 1",
       "N - 1 by the root to deal the chunks out, and one per step by everybody round the "
       "ring, N - 1 steps: after them every chunk has been everywhere",
       [=](Trial& trial) { check_messages(trial, solution); }, kHangHint},
      {"leftward", "every rank but the root sends to its left neighbour only",
       "send to comm.left(), receive from comm.right(); only the root sends to others, in the "
       "scatter",
       [=](Trial& trial) {
         if (trial.size() > 1) check_peers(trial, solution);
       },
       kHangHint},
      {"bytes", "every message is one chunk",
       "2 (N - 1) / N of the tensor by the root, half of that by the others: the scatter sends "
       "a rank its own chunk, not the tensor, and a step of the ring the chunk that has just "
       "come, not all that you have",
       [=](Trial& trial) { check_bytes(trial, solution); }, kHangHint},
      {"waits", "nothing is under way any more when the call returns", kWaitsHint,
       [=](Trial& trial) { expect_finished(trial, traffic_of(trial, solution, 0)); },
       kHangHint},
      {"large", "it works for messages that MPI does not copy",
       "a message carries all elements of its chunk",
       [=](Trial& trial) { check_broadcast(trial, solution, kLarge, trial.size() - 1); },
       "a plain send may wait until the receiver has come. Small chunks went well because MPI "
       "copied them; in a ring in which everybody sends first, everybody waits. Use send_recv, "
       "which does both at once"},
  };
}

}  // namespace dist::exercise
