// Right and wrong trees that are not edited copies of the reference.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/flat.hpp"

#include <span>
#include <vector>

namespace dist::exercise {

// Seats: the ranks, counted from the root.
struct Seats {
  Seats(const Communicator& comm, int from)
      : size(comm.size()), root(from), mine((comm.rank() - from + size) % size) {}
  int rank_of(int seat) const { return (seat + root) % size; }
  int size;
  int root;
  int mine;
};

// Right: finds its sender by clearing the lowest set bit of its seat number. Then sends to the
// seats that it finds by setting a single lower bit, the farthest first.
inline void by_lowest_bit(const Communicator& comm, std::span<float> data, int root) {
  const Seats seats(comm, root);
  int bit = 1;
  while (bit < seats.size && (seats.mine & bit) == 0) bit *= 2;
  if (seats.mine != 0) recv<float>(comm, data, seats.rank_of(seats.mine - bit));
  for (bit /= 2; bit > 0; bit /= 2) {
    if (seats.mine + bit < seats.size) {
      send<float>(comm, data, seats.rank_of(seats.mine + bit));
    }
  }
}

// The same tree, but each rank sends to the nearest seat first, so the farthest, which has the
// most to pass on, gets the data last.
inline void nearest_first(const Communicator& comm, std::span<float> data, int root) {
  const Seats seats(comm, root);
  int lowest = 1;
  while (lowest < seats.size && (seats.mine & lowest) == 0) lowest *= 2;
  if (seats.mine != 0) recv<float>(comm, data, seats.rank_of(seats.mine - lowest));
  for (int bit = 1; bit < lowest && seats.mine + bit < seats.size; bit *= 2) {
    send<float>(comm, data, seats.rank_of(seats.mine + bit));
  }
}

// Right: a rank that has the data for a range of seats sends it to the first seat of the upper
// half.
inline void halve(const Communicator& comm, std::span<float> data, const Seats& seats,
                  int begin, int end) {
  if (end - begin < 2) return;
  const int middle = begin + (end - begin + 1) / 2;
  if (seats.mine == begin) send<float>(comm, data, seats.rank_of(middle));
  if (seats.mine == middle) recv<float>(comm, data, seats.rank_of(begin));
  if (seats.mine < middle) {
    halve(comm, data, seats, begin, middle);
  } else {
    halve(comm, data, seats, middle, end);
  }
}

inline void by_halves(const Communicator& comm, std::span<float> data, int root) {
  const Seats seats(comm, root);
  halve(comm, data, seats, 0, seats.size);
}

// Right: starts its sends round by round, and waits for all of them at the end.
inline void nonblocking(const Communicator& comm, std::span<float> data, int root) {
  const Seats seats(comm, root);
  std::vector<Request> sends;
  for (int d = 1; d < seats.size; d *= 2) {
    if (seats.mine >= d && seats.mine < 2 * d) {
      recv<float>(comm, data, seats.rank_of(seats.mine - d));
    } else if (seats.mine < d && seats.mine + d < seats.size) {
      sends.push_back(isend<float>(comm, data, seats.rank_of(seats.mine + d)));
    }
  }
  for (Request& request : sends) request.wait();
}

inline void to_everybody(const Communicator& comm, std::span<float> data, int root) {
  // First the root sends to every rank; then every rank sends its copy to all others.
  broadcast_flat<float>(comm, data, root);
  std::vector<float> other(data.size());
  for (int step = 1; step < comm.size(); ++step) {
    send_recv<float>(comm, data, (comm.rank() + step) % comm.size(), other,
                     (comm.rank() - step + comm.size()) % comm.size());
  }
}

}  // namespace dist::exercise
