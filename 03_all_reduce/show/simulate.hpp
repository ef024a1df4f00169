// What this file adds: a simulation of all-reduces on machines that you do not have. Every rank
// has a clock, which advances with every step of an algorithm: a message starts when both its
// sender and its receiver are free.
// Builds on: the cost model. The tests compare the simple cases with its formulas.
// Look at: Machine::message_seconds, which distinguishes links within a host from links between
// hosts, and play_ring, which simulates one host to represent all hosts.
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
struct Machine {
  int ranks;
  int per_host;
  int links_per_host;  // to the network; several ranks that send at once share a link
  LinkLine within;     // between two ranks on one host
  LinkLine between;    // between ranks on different hosts
  double gamma_s_per_byte;

  double message_seconds(int from, int to, double bytes) const;
};

enum class SimulatedAlgorithm { ring, tree, recursive_doubling, hierarchical };
constexpr SimulatedAlgorithm kSimulated[] = {SimulatedAlgorithm::ring, SimulatedAlgorithm::tree,
                                             SimulatedAlgorithm::recursive_doubling,
                                             SimulatedAlgorithm::hierarchical};
std::string to_string(SimulatedAlgorithm algorithm);

// The time in seconds until the last rank has the result. hierarchical is a ring reduce-scatter
// within each host, Rabenseifner's all-reduce of each share across hosts (or the ring, if the
// number of hosts is not a power of two), and a ring all-gather within each host. It needs full
// hosts: per_host must divide ranks.
double simulate_all_reduce(SimulatedAlgorithm algorithm, const Machine& machine, double bytes);

}  // namespace dist
