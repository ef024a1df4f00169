// What this file adds: how long an all-reduce will take, from what its parts take. Pure
// functions: no message, no clock.
// Look at: predict_all_reduce, where each algorithm is one line or two: so many steps of so
// many bytes.
// Sources: Thakur, Rabenseifner and Gropp (2005), "Optimization of Collective Communication
// Operations in MPICH"; Patarasuk and Yuan (2009), who have the lower bounds.
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "03_all_reduce/all_reduce.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <optional>

namespace dist {

// Seconds, by the number of bytes. Curves, so that measurements fit in as well as the straight
// lines of the textbook.
struct StepCosts {
  std::function<double(double)> message;   // one message between one pair, the others idle
  std::function<double(double)> exchange;  // all ranks send and receive at once: a ring's step
  std::function<double(double)> reduce;    // so many bytes added to as many
  // Shared memory of one host; without `move` the ranks have none.
  double barrier = 0;
  double segment_block = 0;  // one block of ordinary memory through the segment, all of it
  std::function<double(double)> move;  // all ranks at once read and write so many bytes each
};

// The textbook's: a message is alpha + n beta, whoever else sends; adding is n gamma.
StepCosts straight_line_costs(double alpha_s, double beta_s_per_byte, double gamma_s_per_byte);

// What one host usually costs, where nobody has measured: a message 1 us and 10 GB/s, as in
// lesson 1's alpha_beta; the same memory without messages 0.5 us and 20 GB/s.
StepCosts guessed_costs();
// The same with what lesson 1 has measured of messages here, if it has.
StepCosts step_costs(const std::optional<LinkCost>& measured);

// Seconds of an all-reduce of `bytes` over `ranks` ranks. Nothing where the model knows
// nothing: MPI's own, `automatic`, and shared memory where there is none.
std::optional<double> predict_all_reduce(AllReduceAlgorithm algorithm, double bytes, int ranks,
                                         const StepCosts& costs, bool registered);

// No all-reduce is faster: ceil(lg p) alpha + 2 (p-1)/p n beta + (p-1)/p n gamma.
double lower_bound_seconds(double bytes, int ranks, double alpha_s, double beta_s_per_byte,
                           double gamma_s_per_byte);

// Which algorithm for which size: the fastest by the model at each power of two. Where there is
// shared memory, another must promise to be twice as fast: its messages are copied through the
// same memory, so a smaller promise rather tells of a guess, or a disturbed measurement.
class AllReducePlan {
 public:
  AllReducePlan(int ranks, const StepCosts& costs);

  AllReduceAlgorithm choose(std::size_t bytes, bool registered) const;

  // Plain numbers, so that rank 0's plan can travel to all.
  using Table = std::array<std::array<int, 65>, 2>;
  const Table& table() const { return table_; }
  Table& table() { return table_; }

 private:
  Table table_;
};

}  // namespace dist
