// The parts of lesson 3's program; main.cpp reads the flags and calls them in order.
#pragma once

#include "01_send_recv/show/sweep_options.hpp"
#include "03_all_reduce/advanced/all_reducer.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/nccl_communicator.hpp"
#include "common/stream.hpp"

#include <optional>
#include <string>
#include <vector>

namespace dist {

struct AllReduceOptions {
  CommonOptions common;
  std::string algorithm = "all";
  std::string op = "sum";
  SweepOptions sweep{.min_bytes = 1024, .max_bytes = 16U << 20, .iterations = 10};
  bool registered = true;
  bool picture = false;
};

struct AllReduceContext {
  const AllReduceOptions& options;
  const Communicator& comm;
  const Console& console;
  const Stream& stream;
  AllReducer& reducer;
  std::optional<NcclCommunicator>& nccl;
  bool links_measured;  // whether lesson 1 has measured what a message costs here
};

// Both are called on all ranks; the same verdict on all: whether every element on every rank is
// what it must be.

// The four numbers of lessons 1 and 2, before and after.
bool show_four_numbers(const AllReduceContext& context, const std::string& algorithm);
// Every algorithm at every size, timed, counted, predicted.
bool show_times(const AllReduceContext& context, const std::vector<std::string>& algorithms);

}  // namespace dist
