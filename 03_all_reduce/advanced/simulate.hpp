// What this file adds: all-reduces on machines that you do not have. Every rank has a clock,
// and every step of an algorithm advances it: a message starts when both its ends are free.
// Builds on: the cost model, whose closed formulas for the simple cases are used by the tests.
// Look at: Machine::message_seconds, which distinguishes links within a host from links between
// hosts, and play_ring, which simulates one host on behalf of all.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dist {

struct LinkLine {
  double alpha_s;
  double beta_s_per_byte;
};

// `ranks` ranks in rank order, `per_host` of them on each host; the last host may have fewer.
// Every rank has its own link to the network.
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

// Seconds until the last rank has the result. two_level is a ring reduce-scatter within each
// host, Rabenseifner's all-reduce of each share across hosts, and a ring all-gather within each
// host. It needs full hosts: per_host divides ranks.
double simulate_all_reduce(SimulatedAlgorithm algorithm, const Machine& machine, double bytes);

}  // namespace dist
