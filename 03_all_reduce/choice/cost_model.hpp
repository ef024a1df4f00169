// What this file adds: functions that predict the time of an all-reduce from the times of its
// parts, and choose the fastest. They send no messages and read no clock.
// Look at: predict_all_reduce, where each algorithm is one or two lines: the number of steps,
// and the bytes in each.
// Source: Thakur, Rabenseifner and Gropp (2005), "Optimization of Collective Communication
// Operations in MPICH".
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "03_all_reduce/all_reduce.hpp"

#include <optional>

namespace dist {

// Times in seconds. If `link` has no measured curves, they are those of textbooks: a message of
// n bytes takes alpha + n beta, even if other ranks send at the same time.
struct StepCosts {
  LinkCost link;
  int hosts = 1;
  double gamma_s_per_byte = 5e-11;

  double message(double bytes) const;   // one rank sends to another; all others are idle
  double exchange(double bytes) const;  // all ranks send and receive: a ring's step
  double add(double bytes) const { return bytes * gamma_s_per_byte; }  // to other numbers
};

// Lesson 1's costs of messages if it has `measured` them, else typical ones: LinkCost's
// defaults on one host; 20 us and 1.25 GB/s (10 Gbit/s) between hosts.
StepCosts step_costs(const std::optional<LinkCost>& measured, int hosts);

// [11] The time in seconds of an all-reduce of `bytes` over `ranks` ranks. nullopt if the model
// has no answer: for MPI's own algorithm, for `automatic`, for shared memory, and for
// hierarchical unless there are several hosts with several ranks each.
std::optional<double> predict_all_reduce(AllReduceAlgorithm algorithm, double bytes, int ranks,
                                         const StepCosts& costs);

// Which algorithm `auto` is. On one host, shared memory: it moves every number once, and
// messages would copy it several times. On several hosts, the algorithm that the model predicts
// to be fastest. `host_memory` says whether the ranks of each host share memory.
AllReduceAlgorithm auto_choice(double bytes, int ranks, const StepCosts& costs,
                               bool host_memory);

}  // namespace dist
