// What this file adds: a file that keeps alpha and beta for the later lessons.
// Look at: load_link_cost, which checks everything that it reads.
#include "01_send_recv/alpha_beta.hpp"
#include "common/atomic_file.hpp"
#include "common/check.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>

namespace dist {
namespace {

nlohmann::ordered_json to_json(const std::vector<CostPoint>& points) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const CostPoint& p : points) {
    rows.push_back({{"bytes", p.bytes}, {"time_us", 1e6 * p.seconds}});
  }
  return rows;
}

[[noreturn]] void damaged(const std::string& what) {
  throw Error(
      fmt::format("{}: {}; remove the file, or measure again with send_recv --act pingpong",
                  kLinkCostFile, what));
}

// Returns the number under `key`, which must be from 0 to 10^12. A larger number would overflow
// in later computations.
double number(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) {
    damaged(fmt::format("no number '{}'", key));
  }
  const double value = found->get<double>();
  if (!(value >= 0 && value <= 1e12)) {
    damaged(fmt::format("'{}' is {}", key, value));
  }
  return value;
}

std::vector<CostPoint> points_of(const nlohmann::json& file, const char* key) {
  const auto found = file.find(key);
  if (found == file.end() || !found->is_array()) {
    damaged(fmt::format("no list '{}'", key));
  }
  std::vector<CostPoint> points;
  for (const nlohmann::json& row : *found) {
    const auto bytes = row.find("bytes");
    if (bytes == row.end() || !bytes->is_number_unsigned()) {
      damaged(fmt::format("a point in '{}' has no 'bytes'", key));
    }
    const CostPoint point{bytes->get<std::size_t>(), number(row, "time_us") / 1e6};
    const std::size_t last = points.empty() ? 0 : points.back().bytes;
    if (point.bytes <= last || point.seconds <= 0) {
      damaged(fmt::format("'{}' needs ascending sizes and times above 0", key));
    }
    points.push_back(point);
  }
  return points;
}

}  // namespace

void save_link_cost(const LinkCost& cost) {
  const nlohmann::ordered_json file{{"alpha_us", 1e6 * cost.alpha_s},
                                    {"beta_ns_per_byte", 1e9 * cost.beta_s_per_byte},
                                    {"r2", cost.r2},
                                    {"ranks", cost.ranks},
                                    {"device", cost.device == DeviceType::cpu ? "cpu" : "cuda"},
                                    {"hosts", cost.between_hosts ? "several" : "one"},
                                    {"message", to_json(cost.message)},
                                    {"exchange", to_json(cost.exchange)}};
  std::error_code problem;  // ignored, since the write below reports the problem
  std::filesystem::create_directories(std::filesystem::path(kLinkCostFile).parent_path(),
                                      problem);
  write_file_at_once(kLinkCostFile, file.dump(1) + "\n");
}

std::optional<LinkCost> load_link_cost() {
  std::error_code problem;
  if (!std::filesystem::exists(kLinkCostFile, problem) && !problem) return std::nullopt;
  constexpr std::uintmax_t kLargest = 1 << 20;
  const std::uintmax_t size = std::filesystem::file_size(kLinkCostFile, problem);
  if (problem) damaged(problem.message());
  if (size > kLargest) damaged(fmt::format("{} bytes is too large for this file", size));
  std::ifstream stream(kLinkCostFile);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  const auto file = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object()) damaged("not JSON");

  LinkCost cost;
  cost.alpha_s = number(file, "alpha_us") / 1e6;
  cost.beta_s_per_byte = number(file, "beta_ns_per_byte") / 1e9;
  if (cost.alpha_s + cost.beta_s_per_byte <= 0) damaged("alpha and beta are both 0");
  const auto r2 = file.find("r2");  // negative if the line does not fit at all
  if (r2 == file.end() || !r2->is_number()) damaged("no number 'r2'");
  cost.r2 = r2->get<double>();
  const double ranks = number(file, "ranks");
  if (ranks > 1e6) damaged("'ranks' is implausibly large");
  cost.ranks = static_cast<int>(ranks);
  const auto device = file.value("device", nlohmann::json());
  if (device != "cpu" && device != "cuda") damaged("'device' is neither cpu nor cuda");
  cost.device = device == "cpu" ? DeviceType::cpu : DeviceType::cuda;
  const auto hosts = file.value("hosts", nlohmann::json("one"));  // missing in earlier files
  if (hosts != "one" && hosts != "several") damaged("'hosts' is neither one nor several");
  cost.between_hosts = hosts == "several";
  cost.message = points_of(file, "message");
  cost.exchange = points_of(file, "exchange");
  return cost;
}

}  // namespace dist
