// The program's forecast for machines that you do not have (simulate).
#pragma once

#include "common/command_line.hpp"
#include "common/console.hpp"

#include <cstddef>

namespace dist {

// The defaults describe the links of one GPU, on hosts with eight GPUs. The README gives the
// sources of these figures.
struct ForecastOptions {
  int ranks = 0;  // 0: no forecast
  int ranks_per_host = 8;
  int links_per_host = 0;  // 0: one per rank
  double alpha_us = 5;
  double beta_ns_per_byte = 0.02;  // 50 GB/s
  double within_alpha_us = 2.8;
  double within_beta_ns_per_byte = 1 / 370.0;
  double gamma_ns_per_byte = 0.001;
  bool fitted = false;

  // Adds --simulate, the flags that describe the machine, and the checks on these flags.
  void declare(CommandLine& command_line);
};

// Prints times, bandwidths and crossovers for the sizes from `min_bytes` to `max_bytes`, as
// text or JSON rows. Sends no messages.
void show_forecast(const ForecastOptions& options, std::size_t min_bytes, std::size_t max_bytes,
                   const Console& console);

}  // namespace dist
