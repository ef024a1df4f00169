// What this file adds: functions that predict the time of an all-reduce from the times of its
// parts. They are pure functions, which send no messages and read no clock.
// Look at: predict_all_reduce, where each algorithm is one or two lines: the number of steps,
// and the bytes in each.
// Source: Thakur, Rabenseifner and Gropp (2005), "Optimization of Collective Communication
// Operations in MPICH".
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "03_all_reduce/all_reduce.hpp"

#include <functional>
#include <optional>

namespace dist {

// Times in seconds. `message` and `exchange` are functions of the number of bytes: a measured
// curve or, as in textbooks, a straight line.
struct StepCosts {
  int hosts = 1;
  std::function<double(double)> message;   // one rank sends to another; all others are idle
  std::function<double(double)> exchange;  // all ranks send and receive: a ring's step
  double gamma_s_per_byte = 5e-11;         // a rank adds numbers to others

  double add(double bytes) const { return bytes * gamma_s_per_byte; }
};

// Textbook costs: a message of n bytes takes alpha + n beta, even if other ranks send at the
// same time; adding n bytes takes n gamma.
StepCosts straight_line_costs(double alpha_s, double beta_s_per_byte, double gamma_s_per_byte);

// Typical costs, for use without measurements. Messages take 1 us and 10 GB/s on one host, as
// in lesson 1's alpha_beta, and 20 us and 1.25 GB/s (10 Gbit/s) between hosts.
StepCosts typical_costs(int hosts = 1);
// Typical costs, but with lesson 1's measured costs of messages if `measured` has them.
StepCosts step_costs(const std::optional<LinkCost>& measured, int hosts);

// 11. The time in seconds of an all-reduce of `bytes` over `ranks` ranks. nullopt if the model
// has no answer: for MPI's own algorithm, for `automatic`, for shared memory, and for
// hierarchical unless there are several hosts with several ranks each.
std::optional<double> predict_all_reduce(AllReduceAlgorithm algorithm, double bytes, int ranks,
                                         const StepCosts& costs);

}  // namespace dist
