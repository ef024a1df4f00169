#include "03_all_reduce/show/forecast.hpp"

#include "01_send_recv/alpha_beta.hpp"
#include "01_send_recv/measure.hpp"
#include "03_all_reduce/show/simulate.hpp"
#include "common/check.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace dist {
namespace {

Machine machine_of(const ForecastOptions& options) {
  Machine machine{};
  machine.ranks = options.ranks;
  machine.per_host = std::min(options.ranks_per_host, options.ranks);
  machine.links_per_host =
      options.links_per_host == 0 ? machine.per_host : options.links_per_host;
  machine.within = {1e-6 * options.within_alpha_us, 1e-9 * options.within_beta_ns_per_byte};
  machine.between = {1e-6 * options.alpha_us, 1e-9 * options.beta_ns_per_byte};
  machine.gamma_s_per_byte = 1e-9 * options.gamma_ns_per_byte;
  return machine;
}

// Returns the algorithms to compare on this machine. The hierarchical algorithm needs full
// hosts. It is left out on a single host and with one rank per host, where it has one level.
std::vector<SimulatedAlgorithm> algorithms_of(const Machine& machine) {
  std::vector<SimulatedAlgorithm> all(std::begin(kSimulated), std::end(kSimulated));
  if (machine.ranks % machine.per_host != 0 || machine.ranks == machine.per_host ||
      machine.per_host == 1) {
    std::erase(all, SimulatedAlgorithm::hierarchical);
  }
  return all;
}

SimulatedAlgorithm fastest(const Machine& machine, double bytes) {
  SimulatedAlgorithm best{};
  double least = std::numeric_limits<double>::infinity();
  for (const SimulatedAlgorithm algorithm : algorithms_of(machine)) {
    const double seconds = simulate_all_reduce(algorithm, machine, bytes);
    if (seconds < least) best = algorithm;
    least = std::min(least, seconds);
  }
  return best;
}

// Returns, in bytes and to within 0.1 %, the smallest size in (low, high] at which the
// algorithm that is fastest at `low` is no longer the fastest.
std::size_t crossover(const Machine& machine, std::size_t low, std::size_t high) {
  const SimulatedAlgorithm before = fastest(machine, static_cast<double>(low));
  while (high - low > std::max<std::size_t>(1, low / 1000)) {
    const std::size_t middle = low + (high - low) / 2;
    (fastest(machine, static_cast<double>(middle)) == before ? low : high) = middle;
  }
  return high;
}

std::string time_text(double seconds) {
  return seconds < 1e-2 ? fmt::format("{:.1f}", 1e6 * seconds)
                        : fmt::format("{:.0f}", 1e6 * seconds);
}

}  // namespace

void ForecastOptions::declare(CommandLine& command_line) {
  command_line.number("--simulate", ranks, 1, 65536,
                      "forecast for N ranks without launching them");
  command_line.number("--ranks-per-host", ranks_per_host, 1, 65536, "simulate: ranks per host");
  command_line.number("--links-per-host", links_per_host, 1, 65536,
                      "simulate: links from each host to the network; default: one per rank");
  command_line.number("--alpha-us", alpha_us, 0, 1e6, "simulate: latency between hosts");
  command_line.number("--beta-ns-per-byte", beta_ns_per_byte, 1e-6, 1e6,
                      "simulate: time per byte between hosts");
  command_line.number("--intra-alpha-us", within_alpha_us, 0, 1e6,
                      "simulate: latency within a host");
  command_line.number("--intra-beta-ns-per-byte", within_beta_ns_per_byte, 1e-6, 1e6,
                      "simulate: time per byte within a host");
  command_line.number("--gamma-ns-per-byte", gamma_ns_per_byte, 0, 1e6,
                      "simulate: time per byte added");
  command_line.flag("--fitted", fitted, "simulate: use lesson 1's measurement for all links");
  command_line.check([&command_line, this] {
    if (fitted && ranks == 0) throw Error("--fitted: needs --simulate");
    for (const char* const flag :
         {"--ranks-per-host", "--links-per-host", "--alpha-us", "--beta-ns-per-byte",
          "--intra-alpha-us", "--intra-beta-ns-per-byte", "--gamma-ns-per-byte"}) {
      if (ranks == 0 && command_line.given(flag)) {
        throw Error(fmt::format("{}: needs --simulate", flag));
      }
    }
    if (fitted) {
      for (const char* const flag : {"--alpha-us", "--beta-ns-per-byte", "--intra-alpha-us",
                                     "--intra-beta-ns-per-byte"}) {
        if (command_line.given(flag))
          throw Error(fmt::format("--fitted: cannot be combined with {}", flag));
      }
      const std::optional<LinkCost> link = load_link_cost();
      if (!link) {
        throw Error(fmt::format(
            "--fitted: {} does not exist; send_recv_perf writes it", kLinkCostFile));
      }
      alpha_us = within_alpha_us = 1e6 * link->alpha_s;
      beta_ns_per_byte = within_beta_ns_per_byte = 1e9 * link->beta_s_per_byte;
    }
    if (command_line.given("--ranks-per-host") && ranks_per_host > ranks) {
      throw Error(fmt::format("--ranks-per-host: {} is more than the {} ranks of --simulate",
                              ranks_per_host, ranks));
    }
  });
}

void show_forecast(const ForecastOptions& options, std::size_t min_bytes, std::size_t max_bytes,
                   const Console& console) {
  const Machine machine = machine_of(options);
  const std::vector<SimulatedAlgorithm> algorithms = algorithms_of(machine);
  const int ranks = machine.ranks;
  console.line(
      fmt::format("forecast: {} ranks, {} per host{}; within a host {:g} us, {:.4g} GB/s; "
                  "between hosts {:g} us, {:.4g} GB/s",
                  ranks, machine.per_host,
                  machine.links_per_host < machine.per_host
                      ? fmt::format(" with --links-per-host {}", machine.links_per_host)
                      : "",
                  options.within_alpha_us, 1 / options.within_beta_ns_per_byte,
                  options.alpha_us, 1 / options.beta_ns_per_byte));
  std::vector<std::string> header{"us"};
  for (const SimulatedAlgorithm algorithm : algorithms) header.push_back(to_string(algorithm));
  header.insert(header.end(), {"best busbw GB/s", "latency share"});
  Table table(header);
  const std::vector<std::size_t> sizes = sweep(min_bytes, max_bytes);
  for (const std::size_t size : sizes) {
    const auto bytes = static_cast<double>(size);
    const SimulatedAlgorithm best = fastest(machine, bytes);
    std::vector<std::string> cells{format_bytes(size)};
    std::string best_busbw;
    std::string best_latency;
    for (const SimulatedAlgorithm algorithm : algorithms) {
      const double seconds = simulate_all_reduce(algorithm, machine, bytes);
      // The time of an all-reduce of zero bytes consists of latency alone.
      const double latency =
          seconds > 0 ? simulate_all_reduce(algorithm, machine, 0) / seconds : 0.0;
      const double algbw = seconds > 0 ? bytes / seconds / 1e9 : 0.0;
      const double busbw = algbw * 2 * (ranks - 1) / ranks;
      cells.push_back(time_text(seconds) + (algorithm == best ? "*" : " "));
      if (algorithm == best) {
        best_busbw = fmt::format("{:.2f}", busbw);
        best_latency = fmt::format("{:.0f}%", 100 * latency);
      }
      console.row({{"simulated", true},
                   {"algorithm", to_string(algorithm)},
                   {"ranks", ranks},
                   {"ranks_per_host", machine.per_host},
                   {"links_per_host", machine.links_per_host},
                   {"bytes", size},
                   {"time_us", significant(1e6 * seconds)},
                   {"algbw_gbs", significant(algbw)},
                   {"busbw_gbs", significant(busbw)},
                   {"latency_share", significant(latency)},
                   {"fastest", algorithm == best}});
    }
    cells.insert(cells.end(), {best_busbw, best_latency});
    table.add(cells);
  }
  table.print(console);
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    const auto from = fastest(machine, static_cast<double>(sizes[i - 1]));
    const auto to = fastest(machine, static_cast<double>(sizes[i]));
    if (from == to) continue;
    const std::size_t bytes = crossover(machine, sizes[i - 1], sizes[i]);
    console.line(fmt::format("from {} bytes on, {} is faster than {}", bytes,
                             to_string(fastest(machine, static_cast<double>(bytes))),
                             to_string(from)));
    console.row({{"crossover_bytes", bytes},
                 {"ranks", ranks},
                 {"from", to_string(from)},
                 {"to", to_string(fastest(machine, static_cast<double>(bytes)))}});
  }
}

}  // namespace dist
