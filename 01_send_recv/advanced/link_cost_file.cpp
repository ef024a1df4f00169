// What this file adds: a file that keeps alpha and beta for the later lessons.
// Look at: load_link_cost, which checks everything that it reads.
#include "01_send_recv/alpha_beta.hpp"
#include "common/atomic_file.hpp"
#include "common/check.hpp"
#include "common/json.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>

namespace dist {
namespace {

Json to_json(const std::vector<CostPoint>& points) {
  Json rows = Json::array();
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
double number(const Json& object, const char* key) {
  const Json* found = object.find(key);
  if (found == nullptr || !found->number()) damaged(fmt::format("no number '{}'", key));
  const double value = *found->number();
  if (!(value >= 0 && value <= 1e12)) {
    damaged(fmt::format("'{}' is {}", key, value));
  }
  return value;
}

std::vector<CostPoint> points_of(const Json& file, const char* key) {
  const Json* found = file.find(key);
  if (found == nullptr || found->elements() == nullptr) {
    damaged(fmt::format("no list '{}'", key));
  }
  std::vector<CostPoint> points;
  for (const Json& row : *found->elements()) {
    const Json* bytes = row.find("bytes");
    if (bytes == nullptr || !bytes->whole_number()) {
      damaged(fmt::format("a point in '{}' has no 'bytes'", key));
    }
    const CostPoint point{*bytes->whole_number(), number(row, "time_us") / 1e6};
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
  const Json file{{"alpha_us", 1e6 * cost.alpha_s},
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
  const std::optional<Json> parsed = Json::parse(text);
  if (!parsed || parsed->members() == nullptr) damaged("not JSON");
  const Json& file = *parsed;

  LinkCost cost;
  cost.alpha_s = number(file, "alpha_us") / 1e6;
  cost.beta_s_per_byte = number(file, "beta_ns_per_byte") / 1e9;
  if (cost.alpha_s + cost.beta_s_per_byte <= 0) damaged("alpha and beta are both 0");
  const Json* r2 = file.find("r2");  // negative if the line does not fit at all
  if (r2 == nullptr || !r2->number()) damaged("no number 'r2'");
  cost.r2 = *r2->number();
  const double ranks = number(file, "ranks");
  if (ranks > 1e6) damaged("'ranks' is implausibly large");
  cost.ranks = static_cast<int>(ranks);
  const Json* device = file.find("device");
  const std::string type = device != nullptr && device->text() ? *device->text() : "";
  if (type != "cpu" && type != "cuda") damaged("'device' is neither cpu nor cuda");
  cost.device = type == "cpu" ? DeviceType::cpu : DeviceType::cuda;
  const Json* hosts = file.find("hosts");  // missing in files of earlier versions
  const std::string where = hosts == nullptr ? "one" : hosts->text() ? *hosts->text() : "";
  if (where != "one" && where != "several") damaged("'hosts' is neither one nor several");
  cost.between_hosts = where == "several";
  cost.message = points_of(file, "message");
  cost.exchange = points_of(file, "exchange");
  return cost;
}

}  // namespace dist
