// Checks of scatter and leftward all-gather: values from every root, messages, peers and bytes.
#include "tests/exercises/02_broadcast/broadcasts.hpp"
#include "tests/support/counted.hpp"

#include <algorithm>
#include <numeric>

namespace dist::exercise {
namespace {

const std::string kHangHint =
    "the report says where each rank waits. In the scatter, the root sends to every other "
    "rank, and each of those receives once, from the root. In the ring, every rank sends and "
    "receives in every step. If all ranks start with a plain send, all may wait for each other "
    "forever; send_recv sends and receives at the same time";

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
      return fmt::format("{}a rank sends up to {} messages, expected {}", from_root(root),
                         traffic.messages_per_rank, 2 * each);
    });
    // The root's messages in the scatter, and every rank's messages in the ring.
    const std::uint64_t must = each + each * static_cast<std::uint64_t>(trial.size());
    trial.expect(traffic.messages == must, [&] {
      return fmt::format("{}{} messages in total, expected {}", from_root(root),
                         traffic.messages, must);
    });
  }
}

// Examines rank 0, which takes every place in the ring as the root changes.
void check_peers(Trial& trial, const Broadcast& solution) {
  for (int root = 0; root < trial.size(); ++root) {
    std::vector<int> must(1, trial.size() - 1);
    if (root == 0) {
      must.resize(static_cast<std::size_t>(trial.size() - 1));
      std::iota(must.begin(), must.end(), 1);
    }
    const Traffic traffic = traffic_of(trial, solution, root);
    trial.expect(traffic.peers == must, [&] {
      return fmt::format("{}rank 0 sends to ranks {}, expected {}", from_root(root),
                         fmt::join(traffic.peers, " "), fmt::join(must, " "));
    });
  }
}

void check_bytes(Trial& trial, const Broadcast& solution) {
  for (int root = 0; root < trial.size(); ++root) {
    const Traffic traffic = traffic_of(trial, solution, root);
    const std::uint64_t must = 2 * others(trial) * kChunk * sizeof(float);
    trial.expect(traffic.bytes_per_rank == must, [&] {
      return fmt::format("{}{} elements: a rank sends up to {} bytes, expected {}",
                         from_root(root), static_cast<std::size_t>(trial.size()) * kChunk,
                         traffic.bytes_per_rank, must);
    });
  }
}

}  // namespace

std::vector<Check> checks_of_scatter_all_gather(const Broadcast& solution) {
  return {
      {"root-0", "rank 0's numbers reach all ranks, with one element per chunk",
       "after the scatter, rank r has chunk r. In step s = 0, 1, ... it sends chunk r + s to "
       "the left (after step 0, the chunk that it received in the previous step) and receives "
       "chunk r + 1 + s from the right",
       [=](Trial& trial) {
         check_broadcast(trial, solution, static_cast<std::size_t>(trial.size()), 0);
       },
       kHangHint},
      guard_check(
          solution,
          "if N does not divide the number of elements, chunks differ in length by one, and "
          "some may be empty: call chunk_range for each chunk that you send or receive",
          kHangHint),
      {"values", "the root's numbers reach all ranks, for every root and length",
       "the root is not always rank 0, and it already has its own chunk. If N does not divide "
       "the number of elements, chunks differ in length by one: call chunk_range for each "
       "chunk instead of computing with length / N",
       [=](Trial& trial) {
         for (int root = 0; root < trial.size(); ++root) {
           for (const std::size_t count : sizes(trial)) {
             check_broadcast(trial, solution, count, root);
           }
         }
       },
       kHangHint},
      {"no-collective", "it uses single messages, not collectives", kCollectiveHint,
       [=](Trial& trial) { expect_no_collective(trial, traffic_of(trial, solution, 0)); },
       kHangHint},
      {"messages", "the root sends 2 (N - 1) messages, every other rank N - 1",
       "the root sends N - 1 messages in the scatter. In the ring, every rank sends one "
       "message per step, for N - 1 steps, after which every rank has every chunk",
       [=](Trial& trial) { check_messages(trial, solution); }, kHangHint},
      {"leftward", "every rank except the root sends only to its left neighbour",
       "send to comm.left() and receive from comm.right(); only the root sends to other ranks, "
       "in the scatter",
       [=](Trial& trial) {
         if (trial.size() > 1) check_peers(trial, solution);
       },
       kHangHint},
      {"bytes", "every message contains exactly one chunk",
       "the root sends 2 (N - 1) / N of the tensor, every other rank half of that. In the "
       "scatter, send each rank its own chunk, not the whole tensor. In the ring, send only "
       "the chunk that has just arrived, not everything that you have",
       [=](Trial& trial) { check_bytes(trial, solution); }, kHangHint},
      {"waits", "no send or receive is still in progress when the call returns", kWaitsHint,
       [=](Trial& trial) { expect_finished(trial, traffic_of(trial, solution, 0)); },
       kHangHint},
      {"large", "it works for messages too large for MPI to buffer",
       "a message must contain all elements of its chunk",
       [=](Trial& trial) { check_broadcast(trial, solution, kLarge, trial.size() - 1); },
       "a plain send may wait until the receiver is ready. Small chunks worked because MPI "
       "buffered them. In a ring where every rank sends first, all ranks wait. Use "
       "send_recv, which sends and receives at the same time"},
  };
}

}  // namespace dist::exercise
