// What this file adds: a prediction of the cost of a broadcast. A formula gives the number of
// rounds, and the curves that lesson 1 measured on this machine give the time of each round.
// Builds on: 01, LinkCost.
// Look at: predict_broadcast, which chooses one of the two curves for each algorithm.
#pragma once

#include "02_broadcast/broadcast.hpp"

#include <bit>
#include <cstddef>
#include <optional>

namespace dist {

// ceil(log2 size).
inline int tree_rounds(int size) {
  return size < 2 ? 0 : std::bit_width(static_cast<unsigned>(size - 1));
}

// The number of messages on the longest path; nullopt for MPI's own broadcast, whose algorithm
// is unknown.
inline std::optional<std::size_t> broadcast_rounds(BroadcastAlgorithm algorithm,
                                                   std::size_t bytes, int size,
                                                   const LinkCost& link) {
  if (algorithm == BroadcastAlgorithm::mpi) return std::nullopt;
  if (size < 2) return 0;
  const auto others = static_cast<std::size_t>(size - 1);
  const auto doublings = static_cast<std::size_t>(tree_rounds(size));
  switch (algorithm) {
    case BroadcastAlgorithm::flat: return others;
    case BroadcastAlgorithm::tree: return doublings;
    case BroadcastAlgorithm::pipeline: {
      const std::size_t segments = segments_of(bytes, best_segment_bytes(link, bytes, size));
      return segments == 0 ? 0 : segments + others - 1;
    }
    case BroadcastAlgorithm::scatter_all_gather: return doublings + others;
    case BroadcastAlgorithm::mpi: break;
  }
  return std::nullopt;
}

// [8] The time in seconds, assuming that every rank has its own core and link; nullopt for
// MPI's own broadcast.
//
// If each rank either sends or receives in a round, the round costs as much as a message of
// lesson 1's ping-pong. If ranks send and receive at the same time, the round costs as much as
// a step of lesson 1's ring, in which all ranks share the memory's bandwidth and each divides
// its time between two messages.
inline std::optional<double> predict_broadcast(BroadcastAlgorithm algorithm, std::size_t bytes,
                                               int size, const LinkCost& link) {
  if (algorithm == BroadcastAlgorithm::mpi) return std::nullopt;
  if (size < 2) return 0.0;
  const std::size_t chunk =
      (bytes + static_cast<std::size_t>(size) - 1) / static_cast<std::size_t>(size);
  switch (algorithm) {
    case BroadcastAlgorithm::flat: return (size - 1) * link.message_seconds(bytes);
    case BroadcastAlgorithm::tree: return tree_rounds(size) * link.message_seconds(bytes);
    case BroadcastAlgorithm::pipeline: {
      const std::size_t segment = std::min(bytes, best_segment_bytes(link, bytes, size));
      // With only two ranks, one only sends and the other only receives.
      const double round =
          size == 2 ? link.message_seconds(segment) : link.exchange_seconds(segment);
      const std::size_t rounds = broadcast_rounds(algorithm, bytes, size, link).value_or(0);
      return static_cast<double>(rounds) * round;
    }
    case BroadcastAlgorithm::scatter_all_gather: {
      // In the round with distance d, the root sends those of chunks d to 2d - 1 that exist.
      double scatter = 0;
      for (int distance = 1; distance < size; distance *= 2) {
        const auto chunks = static_cast<std::size_t>(std::min(distance, size - distance));
        scatter += link.message_seconds(chunks * chunk);
      }
      return scatter + (size - 1) * link.exchange_seconds(chunk);
    }
    case BroadcastAlgorithm::mpi: break;
  }
  return std::nullopt;
}

}  // namespace dist
