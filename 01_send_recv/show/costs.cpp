// What this file adds: the ping-pong's table and the line fitted to it, both saved in a file.
// Builds on: ping_pong, alpha_beta.
#include "01_send_recv/alpha_beta.hpp"
#include "01_send_recv/ping_pong.hpp"
#include "01_send_recv/show/acts.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace dist {
namespace {

// The times measured by rank 0's clock.
struct Sweep {
  std::vector<CostPoint> message;
  std::vector<CostPoint> exchange;
};

// Called on rank 0. Returns nullopt for a sweep of fewer than three sizes.
std::optional<LinkCost> fit(const Program& program, const Sweep& measured) {
  if (measured.message.size() < 3) {
    program.console.line("no alpha and beta, since a fit needs at least three sizes");
    program.console.row({{"act", "fit"},
                         {"alpha_us", nullptr},
                         {"beta_ns_per_byte", nullptr},
                         {"r2", nullptr}});
    return std::nullopt;
  }
  LinkCost cost = fit_link_cost(measured.message);
  cost.exchange = measured.exchange;
  cost.ranks = program.comm.size();
  cost.device = program.stream.device().type;
  cost.between_hosts = program.comm.local_size() < program.comm.size();
  program.console.row({{"act", "fit"},
                       {"alpha_us", significant(1e6 * cost.alpha_s)},
                       {"beta_ns_per_byte", significant(1e9 * cost.beta_s_per_byte)},
                       {"r2", significant(cost.r2)}});
  return cost;
}

// Whether the two measurements used the same kind of link. On several hosts with several ranks
// each, ranks 0 and 1 usually share a host, while the ring crosses all hosts. Called on all
// ranks.
bool is_one_kind_of_link(const Communicator& comm) {
  const bool one_host = comm.local_size() == comm.size();
  const bool one_pair_host = comm.all_agree(comm.rank() != 1 || comm.local_rank() != 0);
  return one_host == one_pair_host;
}

double gigabytes_per_s(std::size_t bytes, const PingPongTimes& times) {
  return static_cast<double>(bytes) / (1e3 * times.one_way_us);
}

// Returns the line's time for a size and the error of that time, such as "11.31 (-7%)".
std::string line_and_error(const std::optional<LinkCost>& cost, const CostPoint& point) {
  if (!cost) return "-";
  const double seconds = cost->line_seconds(point.bytes);
  return fmt::format("{:.2f} ({:+.0f}%)", 1e6 * seconds, 100 * (seconds / point.seconds - 1));
}

}  // namespace

bool show_ping_pong(const Program& program, const SweepOptions& sweep) {
  const Console& console = program.console;
  const Communicator& comm = program.comm;
  console.line(
      "ping-pong: ranks 0 and 1 exchange a tensor, then all pass it to the right; "
      "times in microseconds");
  Sweep measured;
  std::vector<PingPongTimes> all_times;
  bool correct = true;
  for (const std::size_t bytes : sweep.sizes()) {
    const Tensor tensor({bytes / sizeof(float)}, program.device.device);
    const PingPongTimes times = ping_pong(comm, tensor, program.stream);
    correct = correct && times.correct;
    measured.message.push_back({bytes, times.one_way_us / 1e6});
    measured.exchange.push_back({bytes, times.ring_step_us / 1e6});
    all_times.push_back(times);
    console.row({{"act", "pingpong"},
                 {"bytes", bytes},
                 {"time_us", significant(times.one_way_us)},
                 {"bandwidth_gbs", significant(gigabytes_per_s(bytes, times))},
                 {"exchange_combined_us", significant(times.combined_us)},
                 {"exchange_nonblocking_us", significant(times.nonblocking_us)},
                 {"ring_step_us", significant(times.ring_step_us)}});
  }
  std::optional<LinkCost> cost;
  if (comm.rank() == 0) cost = fit(program, measured);

  Table table({"size", "one way", "GB/s", "fitted line", "both: send_recv", "isend/irecv",
               "all: ring"});
  for (std::size_t i = 0; i < all_times.size(); ++i) {
    const PingPongTimes& times = all_times[i];
    const CostPoint& point = measured.message[i];
    table.add({format_bytes(point.bytes), fmt::format("{:.2f}", times.one_way_us),
               fmt::format("{:.3f}", gigabytes_per_s(point.bytes, times)),
               line_and_error(cost, point), fmt::format("{:.2f}", times.combined_us),
               fmt::format("{:.2f}", times.nonblocking_us),
               fmt::format("{:.2f}", times.ring_step_us)});
  }
  table.print(console);
  const bool is_saved = is_one_kind_of_link(comm);
  if (cost) {
    if (is_saved) save_link_cost(*cost);  // without a line, keep the old file
    console.line(fmt::format(
        "fitted line: n bytes take {:.2f} us + n x {:.4f} ns (r2 {:.3f}); {}",
        1e6 * cost->alpha_s, 1e9 * cost->beta_s_per_byte, cost->r2,
        is_saved ? fmt::format("saved in {}", kLinkCostFile)
                 : "not saved, because ranks 0 and 1 share a host: use one rank per host"));
  }
  return comm.all_agree(correct);
}

}  // namespace dist
