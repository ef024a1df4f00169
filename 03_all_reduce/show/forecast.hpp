// The program's forecast: all-reduces on machines that are not here (advanced/simulate).
#pragma once

#include "common/command_line.hpp"
#include "common/console.hpp"

#include <cstddef>

namespace dist {

// One GPU's links in hosts of eight, unless told otherwise: see the README for where these
// figures come from.
struct ForecastOptions {
  int ranks = 0;  // 0: no forecast
  int ranks_per_host = 8;
  double alpha_us = 5;
  double beta_ns_per_byte = 0.02;  // 50 GB/s
  double within_alpha_us = 2.8;
  double within_beta_ns_per_byte = 1 / 370.0;
  double gamma_ns_per_byte = 0.001;
  bool fitted = false;

  // Adds --simulate and the flags of the machine, and the checks.
  void declare(CommandLine& command_line);
};

// Times, bandwidths and crossovers for the sizes from `min_bytes` to `max_bytes`; text or JSON
// rows. No message is sent.
void show_forecast(const ForecastOptions& options, std::size_t min_bytes, std::size_t max_bytes,
                   const Console& console);

}  // namespace dist
