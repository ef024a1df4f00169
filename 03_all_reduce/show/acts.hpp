// The parts of lesson 3's program; main.cpp reads the flags and calls them in order.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "01_send_recv/show/sweep_options.hpp"
#include "03_all_reduce/advanced/all_reducer.hpp"
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
  std::string no_nccl;  // why NCCL cannot run here, when the flags are read; empty if it can

  // Adds the flags, the common ones among them, and their checks.
  void declare(Program& program);
  // What this run compares; adds to `left_out` why one of them is not among them.
  std::vector<std::string> algorithms(const Program& program, std::string& left_out) const;
};

// What the acts reduce, and how.
struct AllReduces {
  const Program& program;
  const AllReduceOptions& options;
  AllReducer& reducer;
  std::optional<NcclCommunicator>& nccl;
  bool links_measured;  // whether lesson 1 has measured what a message costs here
};

// Both are called on all ranks; the same verdict on all: whether every element on every rank is
// what it must be.

// The four numbers of lessons 1 and 2, before and after.
bool show_four_numbers(const AllReduces& with, const std::string& algorithm);
// Every algorithm at every size, timed, counted, predicted.
bool show_times(const AllReduces& with, const std::vector<std::string>& algorithms);

}  // namespace dist
