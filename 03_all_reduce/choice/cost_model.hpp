// What this file adds: functions that predict the time of an all-reduce from the times of its
// parts. They are pure functions, which send no messages and read no clock.
// Look at: predict_all_reduce, where each algorithm is one or two lines: the number of steps,
// and the bytes in each.
// Sources: Thakur, Rabenseifner and Gropp (2005), "Optimization of Collective Communication
// Operations in MPICH"; Patarasuk and Yuan (2009) for the lower bounds.
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "03_all_reduce/all_reduce.hpp"

#include <cstddef>
#include <functional>
#include <optional>

namespace dist {

// Times in seconds as functions of the number of bytes. Such a function can be a measured curve
// or, as in textbooks, a straight line.
struct StepCosts {
  int hosts = 1;
  std::function<double(double)> message;   // one rank sends to another; all others are idle
  std::function<double(double)> exchange;  // all ranks send and receive: a ring's step
  std::function<double(double)> reduce;    // a rank adds n bytes to n others
  // Costs of the memory that the ranks of one host share; if `move` is empty, they share none.
  double barrier = 0;
  double segment_block = 0;            // a whole all-reduce of one block through the segment
  std::function<double(double)> move;  // all ranks simultaneously read and write n bytes
};

// Textbook costs: a message of n bytes takes alpha + n beta, even if other ranks send at the
// same time; adding n bytes takes n gamma.
StepCosts straight_line_costs(double alpha_s, double beta_s_per_byte, double gamma_s_per_byte);

// Typical costs, for use without measurements. Messages take 1 us and 10 GB/s on one host, as
// in lesson 1's alpha_beta, and 20 us and 1.25 GB/s (10 Gbit/s) between hosts. Shared memory
// takes 0.5 us and 20 GB/s.
StepCosts guessed_costs(int hosts = 1);
// Typical costs, but with lesson 1's measured costs of messages if `measured` has them.
StepCosts step_costs(const std::optional<LinkCost>& measured, int hosts);

// 11. The time in seconds of an all-reduce of `bytes` over `ranks` ranks; nullopt if the model
// has no answer: for MPI's own algorithm, for `automatic`, for shared memory if the ranks share
// none, and for hierarchical unless there are several hosts with several ranks each.
std::optional<double> predict_all_reduce(AllReduceAlgorithm algorithm, double bytes, int ranks,
                                         const StepCosts& costs, bool registered);

// A lower bound on the time of any all-reduce:
// ceil(lg p) alpha + 2 (p-1)/p n beta + (p-1)/p n gamma.
double lower_bound_seconds(double bytes, int ranks, double alpha_s, double beta_s_per_byte,
                           double gamma_s_per_byte);

}  // namespace dist
