// Right and wrong trees. Each wrong one is a mistake that is easily made; solutions.txt says
// which check finds it.
#include "tests/exercises/02_broadcast/reference/tree_broadcast.hpp"

#include "02_broadcast/flat.hpp"
#include "tests/exercises/02_broadcast/solutions/solutions.hpp"

#include <mpi.h>

#include <algorithm>
#include <vector>

namespace dist::exercise {
namespace {

// Ranks in the order in which they are counted from the root.
struct Seats {
  Seats(const Communicator& comm, int from)
      : size(comm.size()), root(from), mine((comm.rank() - from + size) % size) {}
  int rank_of(int seat) const { return (seat + root) % size; }
  int size;
  int root;
  int mine;
};

// Right: receive first, from the seat without my lowest bit; then give to the seats that have
// one bit more below it, the farthest first.
void by_lowest_bit(const Communicator& comm, std::span<float> data, int root) {
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

// The same tree, the nearest first: the farthest, who has most to pass on, gets it last.
void nearest_first(const Communicator& comm, std::span<float> data, int root) {
  const Seats seats(comm, root);
  int lowest = 1;
  while (lowest < seats.size && (seats.mine & lowest) == 0) lowest *= 2;
  if (seats.mine != 0) recv<float>(comm, data, seats.rank_of(seats.mine - lowest));
  for (int bit = 1; bit < lowest && seats.mine + bit < seats.size; bit *= 2) {
    send<float>(comm, data, seats.rank_of(seats.mine + bit));
  }
}

// Right: who has the data gives the upper half of its seats to the first of them.
void halve(const Communicator& comm, std::span<float> data, const Seats& seats, int begin,
           int end) {
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

void by_halves(const Communicator& comm, std::span<float> data, int root) {
  const Seats seats(comm, root);
  halve(comm, data, seats, 0, seats.size);
}

// Right: what is to be sent is started round by round and waited for in the end.
void nonblocking(const Communicator& comm, std::span<float> data, int root) {
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

void flat(const Communicator& comm, std::span<float> data, int root) {
  broadcast_flat<float>(comm, data, root);
}

void chain(const Communicator& comm, std::span<float> data, int root) {
  const Seats seats(comm, root);
  if (seats.mine > 0) recv<float>(comm, data, comm.left());
  if (seats.mine + 1 < seats.size) send<float>(comm, data, comm.right());
}

void from_rank_0(const Communicator& comm, std::span<float> data, int) {
  tree_broadcast(comm, data, 0);
}

// Counts in seats and then names a seat where a rank is wanted.
void seats_for_ranks(const Communicator& comm, std::span<float> data, int root) {
  const Seats seats(comm, root);
  for (int d = 1; d < seats.size; d *= 2) {
    if (seats.mine < d) {
      if (seats.mine + d < seats.size) send<float>(comm, data, seats.mine + d);
    } else if (seats.mine < 2 * d) {
      recv<float>(comm, data, seats.mine - d);
    }
  }
}

// rank - root without + size: negative where the rank is below the root.
void negative_seats(const Communicator& comm, std::span<float> data, int root) {
  const int seat = (comm.rank() - root) % comm.size();
  for (int d = 1; d < comm.size(); d *= 2) {
    if (seat >= 0 && seat < d) {
      if (seat + d < comm.size()) send<float>(comm, data, (seat + d + root) % comm.size());
    } else if (seat >= 0 && seat < 2 * d) {
      recv<float>(comm, data, (seat - d + root) % comm.size());
    }
  }
}

// log2 rounded down: right for powers of two.
void rounds_rounded_down(const Communicator& comm, std::span<float> data, int root) {
  const Seats seats(comm, root);
  for (int d = 1; 2 * d <= seats.size; d *= 2) {
    if (seats.mine < d) {
      send<float>(comm, data, seats.rank_of(seats.mine + d));
    } else if (seats.mine < 2 * d) {
      recv<float>(comm, data, seats.rank_of(seats.mine - d));
    }
  }
}

// Does not ask whether there is a seat + d: the message goes to one who has the data.
void beyond_the_last_seat(const Communicator& comm, std::span<float> data, int root) {
  const Seats seats(comm, root);
  for (int d = 1; d < seats.size; d *= 2) {
    if (seats.mine < d) {
      send<float>(comm, data, seats.rank_of(seats.mine + d));
    } else if (seats.mine < 2 * d) {
      recv<float>(comm, data, seats.rank_of(seats.mine - d));
    }
  }
}

// The distance grows by one.
void distance_grows_by_one(const Communicator& comm, std::span<float> data, int root) {
  const Seats seats(comm, root);
  for (int d = 1; d < seats.size; ++d) {
    if (seats.mine < d) {
      if (seats.mine + d < seats.size) send<float>(comm, data, seats.rank_of(seats.mine + d));
    } else if (seats.mine < 2 * d) {
      recv<float>(comm, data, seats.rank_of(seats.mine - d));
    }
  }
}

// One distance too few: `<=` would be one too many, which does no harm.
void stops_early(const Communicator& comm, std::span<float> data, int root) {
  const Seats seats(comm, root);
  for (int d = 1; d < seats.size - 1; d *= 2) {
    if (seats.mine < d) {
      if (seats.mine + d < seats.size) send<float>(comm, data, seats.rank_of(seats.mine + d));
    } else if (seats.mine < 2 * d) {
      recv<float>(comm, data, seats.rank_of(seats.mine - d));
    }
  }
}

void to_everybody(const Communicator& comm, std::span<float> data, int root) {
  // Root's round first; then everybody gives what it has to everybody.
  broadcast_flat<float>(comm, data, root);
  std::vector<float> other(data.size());
  for (int step = 1; step < comm.size(); ++step) {
    send_recv<float>(comm, data, (comm.rank() + step) % comm.size(), other,
                     (comm.rank() - step + comm.size()) % comm.size());
  }
}

// In every round the two exchange: the one that had the data gets it back.
void gives_back(const Communicator& comm, std::span<float> data, int root) {
  const Seats seats(comm, root);
  std::vector<float> back(data.size());
  for (int d = 1; d < seats.size; d *= 2) {
    if (seats.mine < d && seats.mine + d < seats.size) {
      const int peer = seats.rank_of(seats.mine + d);
      send_recv<float>(comm, data, peer, back, peer);
    } else if (seats.mine >= d && seats.mine < 2 * d) {
      const int peer = seats.rank_of(seats.mine - d);
      const std::vector<float> own(data.begin(), data.end());
      send_recv<float>(comm, own, peer, data, peer);
    }
  }
}

// Sends in every later round, and in the first of them back to the one it has the data from.
void back_to_the_sender(const Communicator& comm, std::span<float> data, int root) {
  const Seats seats(comm, root);
  for (int d = 1; d < seats.size; d *= 2) {
    if (seats.mine < d) {
      if (seats.mine + d < seats.size) send<float>(comm, data, seats.rank_of(seats.mine + d));
    } else if (seats.mine < 2 * d) {
      recv<float>(comm, data, seats.rank_of(seats.mine - d));
      send<float>(comm, data.first(std::min<std::size_t>(4, data.size())),
                  seats.rank_of(seats.mine - d), 1);
    }
  }
}

// MPI_Isend has started; data will not change, so why wait?
void no_wait(const Communicator& comm, std::span<float> data, int root) {
  const Seats seats(comm, root);
  for (int d = 1; d < seats.size; d *= 2) {
    if (seats.mine < d && seats.mine + d < seats.size) {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_CHECK(MPI_Isend(data.data(), mpi_count(data.size()), MPI_FLOAT,
                          seats.rank_of(seats.mine + d), 0, comm.get(), &request));
    } else if (seats.mine >= d && seats.mine < 2 * d) {
      recv<float>(comm, data, seats.rank_of(seats.mine - d));
    }
  }
}

void mpi_does_it(const Communicator& comm, std::span<float> data, int root) {
  MPI_CHECK(MPI_Bcast(data.data(), mpi_count(data.size()), MPI_FLOAT, root, comm.get()));
}

void does_nothing(const Communicator&, std::span<float>, int) {}

}  // namespace

std::vector<Solution> tree_broadcast_solutions() {
  const auto named = [](const char* name, const Broadcast& solution) {
    return Solution{"tree_broadcast", name, checks_of_tree_broadcast(solution)};
  };
  return {
      named("reference", tree_broadcast),
      named("by-lowest-bit", by_lowest_bit),
      named("by-halves", by_halves),
      named("nonblocking", nonblocking),
      named("nearest-first", nearest_first),
      named("flat", flat),
      named("chain", chain),
      named("from-rank-0", from_rank_0),
      named("seats-for-ranks", seats_for_ranks),
      named("negative-seats", negative_seats),
      named("rounds-rounded-down", rounds_rounded_down),
      named("beyond-last-seat", beyond_the_last_seat),
      named("grows-by-one", distance_grows_by_one),
      named("stops-early", stops_early),
      named("to-everybody", to_everybody),
      named("gives-back", gives_back),
      named("back-to-sender", back_to_the_sender),
      named("no-wait", no_wait),
      named("mpi", mpi_does_it),
      named("does-nothing", does_nothing),
  };
}

}  // namespace dist::exercise
