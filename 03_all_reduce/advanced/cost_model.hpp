// What this file adds: predictions of the time of an all-reduce from the times of its parts.
// These are pure functions, which send no messages and read no clock.
// Look at: predict_all_reduce, where each algorithm is one or two lines: the number of steps,
// and the bytes in each.
// Sources: Thakur, Rabenseifner and Gropp (2005), "Optimization of Collective Communication
// Operations in MPICH"; Patarasuk and Yuan (2009) for the lower bounds.
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "03_all_reduce/all_reduce.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <optional>

namespace dist {

// Seconds as functions of the number of bytes. Functions allow both measured curves and the
// straight lines of the textbook.
struct StepCosts {
  std::function<double(double)> message;   // one message between one pair, the others idle
  std::function<double(double)> exchange;  // all ranks send and receive at once: a ring's step
  std::function<double(double)> reduce;    // adding this many bytes to as many others
  // Shared memory of one host; if `move` is empty, the ranks have none.
  double barrier = 0;
  double segment_block = 0;            // a whole all-reduce of one block through the segment
  std::function<double(double)> move;  // all ranks at once read and write this many bytes
};

// The textbook's costs: a message takes alpha + n beta, even if others send at the same time;
// adding takes n gamma.
StepCosts straight_line_costs(double alpha_s, double beta_s_per_byte, double gamma_s_per_byte);

// Typical costs on one host, for when nothing has been measured: 1 us and 10 GB/s for a
// message, as in lesson 1's alpha_beta; 0.5 us and 20 GB/s for shared memory.
StepCosts guessed_costs();
// The same, with lesson 1's measurements of messages if there are any.
StepCosts step_costs(const std::optional<LinkCost>& measured);

// 10. Seconds for an all-reduce of `bytes` over `ranks` ranks. Empty if the model has no
// answer: for MPI's own algorithm, for `automatic`, and for shared memory if there is none.
std::optional<double> predict_all_reduce(AllReduceAlgorithm algorithm, double bytes, int ranks,
                                         const StepCosts& costs, bool registered);

// The lower bound of any all-reduce: ceil(lg p) alpha + 2 (p-1)/p n beta + (p-1)/p n gamma.
double lower_bound_seconds(double bytes, int ranks, double alpha_s, double beta_s_per_byte,
                           double gamma_s_per_byte);

// Chooses an algorithm for each size: at each power of two, the fastest by the model. If there
// is shared memory, a different algorithm is chosen only if it is predicted to be twice as
// fast. That algorithm's messages are copied through the same memory, so a smaller advantage is
// more likely to come from a guess or a disturbed measurement.
class AllReducePlan {
 public:
  AllReducePlan(int ranks, const StepCosts& costs);

  AllReduceAlgorithm choose(std::size_t bytes, bool registered) const;

  // Plain numbers, so that rank 0 can broadcast its plan.
  using Table = std::array<std::array<int, 65>, 2>;
  const Table& table() const { return table_; }
  Table& table() { return table_; }

 private:
  Table table_;
};

}  // namespace dist
