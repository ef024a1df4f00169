// What this file adds: a broadcast in which no rank sends more than about two tensors' worth of
// data, however many ranks there are: the root hands out chunks, which then go around a ring.
// Builds on: 01, send, recv and send_recv; the vranks of binomial_tree; chunks.
// Look at: the second half, which lesson 3's ring uses again as its own second half.
// Sources: van de Geijn's algorithm, in Barnett et al., "Interprocessor collective
// communication library (InterCom)" (1994), and Thakur, Rabenseifner and Gropp, "Optimization
// of collective communication operations in MPICH" (2005).
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"

#include <bit>
#include <span>

namespace dist {

// [6] Hands out the root's `data`: afterwards vrank v (see binomial_tree) holds chunk v, at
// that chunk's position in `data`. Called on all ranks with the same root and length.
//
// The tree is that of binomial_tree, but with the largest distance first, so that the length of
// the messages halves in every round. Before the round with distance d, each vrank v that is a
// multiple of 2d holds chunks v to v + 2d - 1, and sends the upper half of them to vrank v + d:
//
//   size 7     distance 4   0 -> 4: chunks 4 5 6
//              distance 2   0 -> 2: 2 3              4 -> 6: 6
//              distance 1   0 -> 1: 1     2 -> 3: 3  4 -> 5: 5   (6 -> 7: there is no vrank 7)
template <MpiScalar T>
void binomial_scatter(const Communicator& comm, std::span<T> data, int root) {
  const int size = comm.size();
  const int vrank = (comm.rank() - root + size) % size;
  const auto rank_of = [&](int v) { return (v + root) % size; };
  const auto begin_of = [&](int v) {
    return v >= size ? data.size() : chunk_range(data.size(), size, v).begin;
  };
  // Vrank v receives chunks v to v + d - 1 in the round with distance d.
  const auto share = [&](int v, int d) {
    return data.subspan(begin_of(v), begin_of(v + d) - begin_of(v));
  };
  if (size < 2) return;
  for (int distance = static_cast<int>(std::bit_floor(static_cast<unsigned>(size - 1)));
       distance > 0; distance /= 2) {
    if (vrank % (2 * distance) == 0 && vrank + distance < size) {
      send<T>(comm, share(vrank + distance, distance), rank_of(vrank + distance));
    } else if (vrank % (2 * distance) == distance) {
      recv<T>(comm, share(vrank, distance), rank_of(vrank - distance));
    }
  }
}

// [7] Sends the root's `data` to all ranks. Called on all ranks with the same root and length.
// If there are fewer elements than ranks, some chunks and their messages are empty.
// Cost: ceil(log2 size) + size - 1 rounds. The root sends 2 (size - 1) / size times as many
// bytes as the tensor has; in a tree, it sends the whole tensor ceil(log2 size) times.
template <MpiScalar T>
void broadcast_scatter_all_gather(const Communicator& comm, std::span<T> data, int root) {
  binomial_scatter(comm, data, root);
  // Vrank v starts with chunk v. At step k it sends chunk v - k (received at step k - 1 if
  // k > 0) and receives chunk v - 1 - k. After size - 1 steps it has all chunks.
  const int size = comm.size();
  const int vrank = (comm.rank() - root + size) % size;
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), size, index));
  };
  for (int step = 0; step < size - 1; ++step) {
    send_recv<T>(comm, chunk(vrank - step), comm.right(), chunk(vrank - 1 - step), comm.left());
  }
}

}  // namespace dist
