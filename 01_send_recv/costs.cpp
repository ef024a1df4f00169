// What this file adds: the table of the ping-pong, the line through it, and the file in which
// both stay.
// Builds on: ping_pong, alpha_beta.
#include "01_send_recv/acts.hpp"
#include "01_send_recv/alpha_beta.hpp"
#include "01_send_recv/ping_pong.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <vector>

namespace dist {
namespace {

// On rank 0. A sweep of fewer than three sizes has no fit, and leaves what was kept as it was.
void show_fit(const Stage& stage, const std::vector<CostPoint>& message,
              const std::vector<CostPoint>& exchange) {
  if (message.size() < 3) {
    stage.console.line("no alpha and beta: a line needs at least three sizes");
    stage.console.row({{"act", "fit"},
                       {"alpha_us", nullptr},
                       {"beta_ns_per_byte", nullptr},
                       {"r2", nullptr}});
    return;
  }
  LinkCost cost = fit_link_cost(message);
  cost.exchange = exchange;
  cost.ranks = stage.comm.size();
  cost.device = stage.stream.device().type;
  const double alpha_us = 1e6 * cost.alpha_s;
  const double beta_ns = 1e9 * cost.beta_s_per_byte;
  stage.console.line(
      fmt::format("a message of n bytes takes {:.2f} us + n x {:.4f} ns "
                  "(r2 {:.3f}); kept in {}",
                  alpha_us, beta_ns, cost.r2, kLinkCostFile));
  stage.console.row({{"act", "fit"},
                     {"alpha_us", significant(alpha_us)},
                     {"beta_ns_per_byte", significant(beta_ns)},
                     {"r2", significant(cost.r2)}});
  save_link_cost(cost);
}

}  // namespace

bool show_ping_pong(const Stage& stage) {
  const auto& [console, comm, stream, sweep] = stage;
  console.line(
      "ping-pong: ranks 0 and 1 exchange a tensor, then all pass it to the right; "
      "microseconds");
  Table table({"size", "one way", "GB/s", "both: send_recv", "both: isend/irecv", "all: ring"});
  std::vector<CostPoint> message;
  std::vector<CostPoint> exchange;
  bool correct = true;
  for (const std::size_t bytes : sweep.sizes()) {
    const Tensor tensor({bytes / sizeof(float)}, stream.device());
    const PingPongTimes times = ping_pong(comm, tensor, stream);
    correct = correct && times.correct;
    message.push_back({bytes, times.one_way_us / 1e6});
    exchange.push_back({bytes, times.ring_step_us / 1e6});
    const double gigabytes_per_s = static_cast<double>(bytes) / (1e3 * times.one_way_us);
    table.add({format_bytes(bytes), fmt::format("{:.2f}", times.one_way_us),
               fmt::format("{:.3f}", gigabytes_per_s), fmt::format("{:.2f}", times.combined_us),
               fmt::format("{:.2f}", times.nonblocking_us),
               fmt::format("{:.2f}", times.ring_step_us)});
    console.row({{"act", "pingpong"},
                 {"bytes", bytes},
                 {"time_us", significant(times.one_way_us)},
                 {"bandwidth_gbs", significant(gigabytes_per_s)},
                 {"exchange_combined_us", significant(times.combined_us)},
                 {"exchange_nonblocking_us", significant(times.nonblocking_us)},
                 {"ring_step_us", significant(times.ring_step_us)}});
  }
  table.print(console);
  if (comm.rank() == 0) show_fit(stage, message, exchange);
  return comm.all_agree(correct);
}

}  // namespace dist
