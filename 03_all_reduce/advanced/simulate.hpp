// What this file adds: all-reduces on machines that are not here. Every step of every algorithm
// is played on a clock for each rank: a message starts when both its ends are free.
// Builds on: the cost model, which has closed formulas for the simple cases: they are the
// oracle of the tests.
// Look at: Machine::seconds, where a link within a host and one between hosts differ, and
// play_ring, which plays one host for all.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dist {

struct LinkLine {
  double alpha_s;
  double beta_s_per_byte;
};

// `ranks` ranks, `per_host` of them on each host (on the last one perhaps fewer), in rank
// order. Every rank has its own link into the network.
struct Machine {
  int ranks;
  int per_host;
  LinkLine within;   // two ranks of one host
  LinkLine between;  // two ranks of different hosts
  double gamma_s_per_byte;

  double message_seconds(int from, int to, double bytes) const;
};

enum class SimulatedAlgorithm { ring, tree, recursive_doubling, two_level };
constexpr SimulatedAlgorithm kSimulated[] = {SimulatedAlgorithm::ring, SimulatedAlgorithm::tree,
                                             SimulatedAlgorithm::recursive_doubling,
                                             SimulatedAlgorithm::two_level};
std::string to_string(SimulatedAlgorithm algorithm);

// Seconds until the last rank has the result. two_level: reduce-scatter around a ring within
// each host, all-reduce of each share across the hosts (Rabenseifner's), all-gather within; it
// needs whole hosts (per_host divides ranks).
double simulate_all_reduce(SimulatedAlgorithm algorithm, const Machine& machine, double bytes);

}  // namespace dist
