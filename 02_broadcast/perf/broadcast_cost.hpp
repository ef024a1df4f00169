// What this file adds: a prediction of the cost of a broadcast. A formula gives the number of
// rounds, and the curves that lesson 1 measured on this machine give the time of each round.
// Builds on: 01, LinkCost.
// Look at: which of the two curves each algorithm needs.
#pragma once

#include "02_broadcast/broadcast.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace dist {

struct BroadcastCost {
  int rounds;  // the number of messages on the longest path
  double seconds;
};

// [8] Assumes that every rank has its own core and link; nullopt for MPI's own broadcast, whose
// algorithm is unknown.
//
// If each rank either sends or receives in a round, the round costs as much as a message of
// lesson 1's ping-pong. If ranks send and receive at the same time, the round costs as much as
// a step of lesson 1's ring, in which all ranks share the memory's bandwidth and each divides
// its time between two messages.
inline std::optional<BroadcastCost> predict_broadcast(BroadcastAlgorithm algorithm,
                                                      std::size_t bytes, int size,
                                                      const LinkCost& link) {
  if (algorithm == BroadcastAlgorithm::mpi) return std::nullopt;
  if (size < 2) return BroadcastCost{0, 0};
  const int others = size - 1;
  const int doublings = tree_rounds(size);
  switch (algorithm) {
    case BroadcastAlgorithm::flat:
      return BroadcastCost{others, others * link.message_seconds(bytes)};
    case BroadcastAlgorithm::tree:
      return BroadcastCost{doublings, doublings * link.message_seconds(bytes)};
    case BroadcastAlgorithm::pipeline: {
      const std::size_t segment = best_segment_bytes(link, bytes, size);
      const auto segments = static_cast<int>(segments_of(bytes, segment));
      const int rounds = segments == 0 ? 0 : segments + others - 1;
      // With only two ranks, one only sends and the other only receives.
      const std::size_t sent = std::min(bytes, segment);
      return BroadcastCost{rounds, rounds * (size == 2 ? link.message_seconds(sent)
                                                       : link.exchange_seconds(sent))};
    }
    case BroadcastAlgorithm::scatter_all_gather: {
      const std::size_t chunk = chunk_range(bytes, size, 0).count;  // the longest
      // In the round with distance d, the root sends those of chunks d to 2d - 1 that exist.
      double scatter = 0;
      for (int distance = 1; distance < size; distance *= 2) {
        const auto chunks = static_cast<std::size_t>(std::min(distance, size - distance));
        scatter += link.message_seconds(chunks * chunk);
      }
      return BroadcastCost{doublings + others, scatter + others * link.exchange_seconds(chunk)};
    }
    case BroadcastAlgorithm::mpi: break;
  }
  return std::nullopt;
}

}  // namespace dist
