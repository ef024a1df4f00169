// Look at: a typical use of two broadcasts, the first for the length and the second for the
// numbers.
#include "02_broadcast/show/share_link_cost.hpp"

#include "02_broadcast/binomial_tree.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace dist {
namespace {

// A double holds sizes up to 2^53 exactly.
void append(std::vector<double>& numbers, const std::vector<CostPoint>& points) {
  for (const CostPoint& point : points) {
    numbers.push_back(static_cast<double>(point.bytes));
    numbers.push_back(point.seconds);
  }
}

}  // namespace

std::optional<LinkCost> share_link_cost(const Communicator& comm,
                                        const std::optional<LinkCost>& mine) {
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  std::array<std::uint64_t, 2> points{kNone, 0};  // the number of points of each curve
  std::vector<double> numbers;
  if (comm.rank() == 0 && mine) {
    points = {mine->message.size(), mine->exchange.size()};
    numbers = {mine->alpha_s, mine->beta_s_per_byte, mine->r2, static_cast<double>(mine->ranks),
               mine->device == DeviceType::cpu ? 0.0 : 1.0};
    append(numbers, mine->message);
    append(numbers, mine->exchange);
  }
  // A message between hosts costs many times as much as one inside a host.
  const bool between_hosts = comm.local_size() < comm.size();
  if (comm.rank() == 0 && mine && mine->between_hosts != between_hosts) points[0] = kNone;
  broadcast_tree<std::uint64_t>(comm, points, 0);
  if (points[0] == kNone) return std::nullopt;
  constexpr std::size_t kScalars = 5;
  numbers.resize(kScalars + 2 * (points[0] + points[1]));
  broadcast_tree<double>(comm, numbers, 0);

  LinkCost shared;
  shared.between_hosts = between_hosts;
  shared.alpha_s = numbers[0];
  shared.beta_s_per_byte = numbers[1];
  shared.r2 = numbers[2];
  shared.ranks = static_cast<int>(numbers[3]);
  shared.device = numbers[4] == 0 ? DeviceType::cpu : DeviceType::cuda;
  for (std::size_t i = kScalars; i < numbers.size(); i += 2) {
    auto& curve = shared.message.size() < points[0] ? shared.message : shared.exchange;
    curve.push_back({static_cast<std::size_t>(numbers[i]), numbers[i + 1]});
  }
  return shared;
}

}  // namespace dist
