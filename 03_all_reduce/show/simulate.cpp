#include "03_all_reduce/show/simulate.hpp"

#include "03_all_reduce/recursive_doubling.hpp"
#include "common/check.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace dist {
namespace {

// One clock per rank, which shows when the rank has finished all its steps so far.
class Clocks {
 public:
  explicit Clocks(const Machine& machine)
      : machine_(machine), now_(static_cast<std::size_t>(machine.ranks), 0.0) {}

  // Simulates a message, after which the receiver adds `added` bytes.
  void message(int from, int to, double bytes, double added) {
    const double end = std::max(at(from), at(to)) + machine_.message_seconds(from, to, bytes);
    at(from) = end;
    at(to) = end + added * machine_.gamma_s_per_byte;
  }
  // Simulates simultaneous messages in both directions, after which both ranks add `added`
  // bytes.
  void exchange(int one, int other, double bytes, double added) {
    const double end = std::max(at(one), at(other)) +
                       machine_.message_seconds(one, other, bytes) +
                       added * machine_.gamma_s_per_byte;
    at(one) = at(other) = end;
  }
  double last() const { return *std::max_element(now_.begin(), now_.end()); }

 private:
  double& at(int rank) { return now_[static_cast<std::size_t>(rank)]; }

  const Machine& machine_;
  std::vector<double> now_;
};

// Simulates 2 (size - 1) steps around the ring. In each step, a rank waits for its left
// neighbour's message to arrive and for its own message to be sent.
//
// All full hosts behave alike, so corresponding ranks have equal clocks. It is therefore enough
// to simulate the first host, with its last rank as the left neighbour of its first rank. If
// the last host is not full, every rank is simulated.
double play_ring(const Machine& machine, double bytes) {
  const int size = machine.ranks;
  if (size == 1) return 0;
  const bool alike = size % machine.per_host == 0 && size > machine.per_host;
  const auto played = static_cast<std::size_t>(alike ? machine.per_host : size);
  const double chunk = bytes / size;
  // arrival[r]: the duration of rank r's message from the left.
  std::vector<double> arrival(played);
  for (std::size_t r = 0; r < played; ++r) {
    const int rank = static_cast<int>(r);
    arrival[r] = machine.message_seconds((rank + size - 1) % size, rank, chunk);
  }
  std::vector<double> now(played, 0.0);
  std::vector<double> sent(played);
  for (int step = 0; step < 2 * (size - 1); ++step) {
    const double added = step < size - 1 ? chunk * machine.gamma_s_per_byte : 0.0;
    // Rank r's message from the left starts when both ranks are ready.
    for (std::size_t r = 0; r < played; ++r) {
      sent[r] = std::max(now[(r + played - 1) % played], now[r]) + arrival[r];
    }
    // send_recv also waits until this rank's own message has been sent.
    for (std::size_t r = 0; r < played; ++r) {
      now[r] = std::max(sent[r] + added, sent[(r + 1) % played]);
    }
  }
  return *std::max_element(now.begin(), now.end());
}

// Simulates binomial trees: a reduction to rank 0, then a broadcast from rank 0.
double play_tree(const Machine& machine, double bytes) {
  Clocks clocks(machine);
  int top = 1;
  for (; top < machine.ranks; top *= 2) {
    for (int rank = 0; rank + top < machine.ranks; rank += 2 * top) {
      clocks.message(rank + top, rank, bytes, bytes);
    }
  }
  for (top /= 2; top >= 1; top /= 2) {
    for (int rank = 0; rank + top < machine.ranks; rank += 2 * top) {
      clocks.message(rank, rank + top, bytes, 0);
    }
  }
  return clocks.last();
}

// The surplus ranks beyond a power of two send their numbers and receive the result; see Seats.
// The `ranks` ranks are first, first + stride, first + 2 stride, ...
template <class Exchange>
void play_seats(Clocks& clocks, int first, int stride, int ranks, double bytes,
                Exchange exchange) {
  const Seats seats(ranks);
  const auto number = [&](int rank) { return first + stride * rank; };
  for (int rank = 0; rank < 2 * seats.beyond; rank += 2) {
    clocks.message(number(rank), number(rank + 1), bytes, bytes);
  }
  exchange(seats, number);
  for (int rank = 0; rank < 2 * seats.beyond; rank += 2) {
    clocks.message(number(rank + 1), number(rank), bytes, 0);
  }
}

template <class Number>
void exchange_all(Clocks& clocks, const Seats& seats, Number number, int distance, double bytes,
                  double added) {
  for (int seat = 0; seat < seats.count; ++seat) {
    const int partner = seat ^ distance;
    if (seat > partner) continue;
    clocks.exchange(number(seats.rank_of(seat)), number(seats.rank_of(partner)), bytes, added);
  }
}

// The machine as seen by ranks that all send at once, several over each link of their host.
Machine with_shared_links(Machine machine) {
  const double sharing = static_cast<double>(machine.per_host) / machine.links_per_host;
  machine.between.beta_s_per_byte *= std::max(1.0, sharing);
  return machine;
}

double play_recursive_doubling(const Machine& machine, double bytes) {
  const Machine shared = with_shared_links(machine);
  Clocks clocks(shared);
  play_seats(clocks, 0, 1, machine.ranks, bytes, [&](const Seats& seats, auto number) {
    for (int distance = 1; distance < seats.count; distance *= 2) {
      exchange_all(clocks, seats, number, distance, bytes, bytes);
    }
  });
  return clocks.last();
}

double play_rabenseifner(const Machine& machine, double bytes) {
  Clocks clocks(machine);
  play_seats(clocks, 0, 1, machine.ranks, bytes, [&](const Seats& seats, auto number) {
    double half = bytes / 2;
    for (int distance = seats.count / 2; distance >= 1; distance /= 2, half /= 2) {
      exchange_all(clocks, seats, number, distance, half, half);
    }
    for (int distance = 1; distance < seats.count; distance *= 2) {
      half *= 2;
      exchange_all(clocks, seats, number, distance, half, 0);
    }
  });
  return clocks.last();
}

double play_hierarchical(const Machine& machine, double bytes) {
  const int inside = machine.per_host;
  if (machine.ranks % inside != 0) {
    throw Error("hierarchical: the ranks must fill whole hosts");
  }
  const double share = bytes / inside;
  // Within a host, all links of the ring are equal, and so are all clocks.
  const double step = machine.within.alpha_s + share * machine.within.beta_s_per_byte;
  const double scatter = (inside - 1) * (step + share * machine.gamma_s_per_byte);
  const double gather = (inside - 1) * step;

  // Across hosts, rank k of every host forms a group. The groups take equally long, so only the
  // one for k = 0 is simulated.
  Machine hosts = with_shared_links(machine);
  hosts.ranks = machine.ranks / inside;
  hosts.per_host = 1;
  const double across = std::has_single_bit(static_cast<unsigned>(hosts.ranks))
                            ? play_rabenseifner(hosts, share)
                            : play_ring(hosts, share);
  return scatter + across + gather;
}

}  // namespace

double Machine::message_seconds(int from, int to, double bytes) const {
  const LinkLine& link = from / per_host == to / per_host ? within : between;
  return link.alpha_s + bytes * link.beta_s_per_byte;
}

std::string to_string(SimulatedAlgorithm algorithm) {
  switch (algorithm) {
    case SimulatedAlgorithm::ring: return "ring";
    case SimulatedAlgorithm::tree: return "tree";
    case SimulatedAlgorithm::recursive_doubling: return "recursive-doubling";
    case SimulatedAlgorithm::hierarchical: return "hierarchical";
  }
  throw Error("this simulated algorithm has no name");
}

double simulate_all_reduce(SimulatedAlgorithm algorithm, const Machine& machine, double bytes) {
  switch (algorithm) {
    case SimulatedAlgorithm::ring: return play_ring(machine, bytes);
    case SimulatedAlgorithm::tree: return play_tree(machine, bytes);
    case SimulatedAlgorithm::recursive_doubling: return play_recursive_doubling(machine, bytes);
    case SimulatedAlgorithm::hierarchical: return play_hierarchical(machine, bytes);
  }
  throw Error("this simulated algorithm has no implementation");
}

}  // namespace dist
