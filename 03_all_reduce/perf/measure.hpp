// Measures one all-reduce at one size, and prints what was measured.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "03_all_reduce/choice/all_reducer.hpp"
#include "common/program.hpp"
#include "common/watch.hpp"

#include <optional>
#include <string>
#include <vector>

namespace dist {

// What is the same for all algorithms and sizes.
struct Bench {
  const Program& program;
  ReduceOp op;
  AllReducer& reducer;
  std::optional<NcclCommunicator>& nccl;
  int iterations;
  bool links_measured;  // whether lesson 1 has measured the cost of a message here
};

struct Result {
  std::string algorithm;  // as asked for
  std::string chosen;     // what ran
  std::size_t bytes = 0;
  double seconds = 0;
  std::size_t wrong = 0;            // elements, over all ranks
  std::optional<double> predicted;  // seconds
  std::optional<Traffic> traffic;   // nullopt if this program itself sends no messages
};

// Called on all ranks. A message is in registered memory if `registered` is true and the ranks
// can share it.
Tensor allocate_message(const Bench& bench, std::size_t bytes, bool registered);
Result measure(const Bench& bench, const std::string& algorithm, const Tensor& tensor);

Json row_of(const Result& result, int ranks);
// `by_algorithm` has the same sizes for each algorithm. Several algorithms make one line each,
// with a column for each size; a single one makes a line for each size, with its counts.
void print_table(const Console& console, int ranks,
                 const std::vector<std::vector<Result>>& by_algorithm);

}  // namespace dist
