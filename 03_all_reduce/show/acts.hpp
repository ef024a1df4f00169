// The parts of lesson 3's program, which main.cpp calls in order after reading the flags.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "01_send_recv/perf/sweep_options.hpp"
#include "03_all_reduce/choice/all_reducer.hpp"
#include "common/program.hpp"

#include <optional>
#include <string>
#include <vector>

namespace dist {

struct AllReduceOptions {
  std::string algorithm = "all";
  std::string op = "sum";
  SweepOptions sweep{.min_bytes = 1024, .max_bytes = 16U << 20, .iterations = 10};
  bool registered = true;
  bool picture = false;
  std::string no_nccl;  // set by the checks: why NCCL cannot run here; empty if it can

  // Adds the flags, including the common flags, and the checks on them.
  void declare(Program& program);
  // Returns the algorithms that this run compares. Appends to `left_out` the reason for each
  // algorithm that is missing.
  std::vector<std::string> algorithms(const AllReducer& reducer, std::string& left_out) const;
};

// The arguments that the functions below share.
struct AllReduces {
  const Program& program;
  const AllReduceOptions& options;
  AllReducer& reducer;
  std::optional<NcclCommunicator>& nccl;
  bool links_measured;  // whether lesson 1 has measured the cost of a message here
};

// Both functions are called on all ranks. On all of them, they return whether every element on
// every rank is right.

// Shows the four numbers of lessons 1 and 2 before and after the all-reduce.
bool show_four_numbers(const AllReduces& with, const std::string& algorithm);
// Shows times, counts and predictions for every algorithm and size.
bool show_times(const AllReduces& with, const std::vector<std::string>& algorithms);

}  // namespace dist
