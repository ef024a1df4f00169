// What this file adds: a file that keeps alpha and beta for the later lessons.
#include "01_send_recv/alpha_beta.hpp"
#include "common/atomic_file.hpp"
#include "common/check.hpp"
#include "common/console.hpp"

#include <mpi.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace dist {

// The JSON library finds these two functions by their names.
static void to_json(Json& row, const CostPoint& point) {
  row = {{"bytes", point.bytes}, {"time_us", 1e6 * point.seconds}};
}
static void from_json(const Json& row, CostPoint& point) {
  point = {row.at("bytes"), row.at("time_us").get<double>() / 1e6};
}

std::string save_link_cost(const LinkCost& cost) try {
  const Json file{{"alpha_us", 1e6 * cost.alpha_s},
                  {"beta_ns_per_byte", 1e9 * cost.beta_s_per_byte},
                  {"r2", cost.r2},
                  {"ranks", cost.ranks},
                  {"device", cost.device == DeviceType::cpu ? "cpu" : "cuda"},
                  {"hosts", cost.between_hosts ? "several" : "one"},
                  {"message", cost.message},
                  {"exchange", cost.exchange}};
  const std::string folder = std::filesystem::path(kLinkCostFile).parent_path();
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) throw Error(folder + ": cannot be created: " + problem.message());
  write_file_at_once(kLinkCostFile, file.dump(1) + "\n");
  return std::string("saved in ") + kLinkCostFile;
} catch (const Error& error) {  // the folder may be somebody else's
  return std::string("not saved: ") + error.what();
}

// Whether a measurement can have given these times. Others would make predictions infinite.
static bool are_plausible(const std::vector<CostPoint>& points) {
  std::size_t last = 0;
  for (const auto& [bytes, seconds] : points) {
    if (bytes <= last || !(seconds > 0 && seconds <= 1e6)) return false;
    last = bytes;
  }
  return true;
}

std::optional<LinkCost> load_link_cost(const Communicator& comm) {
  std::int64_t length = -1;  // no file
  std::string text;
  std::error_code problem;
  if (comm.rank() == 0 && (std::filesystem::exists(kLinkCostFile, problem) || problem)) {
    std::ifstream stream(kLinkCostFile);
    text.assign(std::istreambuf_iterator<char>(stream), {});
    length = std::ssize(text);
  }
  MPI_CHECK(MPI_Bcast(&length, 1, MPI_INT64_T, 0, comm.get()));
  if (length < 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(length));
  MPI_CHECK(MPI_Bcast(text.data(), mpi_count(text.size()), MPI_CHAR, 0, comm.get()));
  const auto refuse = [](const std::string& what) {
    return Error(kLinkCostFile + (": " + what) +
                 "; remove the file, or measure again with send_recv_perf");
  };
  const Json file = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object()) throw refuse("not JSON");
  try {
    LinkCost cost;
    cost.alpha_s = file.at("alpha_us").get<double>() / 1e6;
    cost.beta_s_per_byte = file.at("beta_ns_per_byte").get<double>() / 1e9;
    cost.r2 = file.at("r2");
    cost.ranks = file.at("ranks");
    cost.device = file.at("device") == "cpu" ? DeviceType::cpu : DeviceType::cuda;
    cost.between_hosts = file.value("hosts", "one") == "several";  // missing in earlier files
    cost.message = file.at("message");
    cost.exchange = file.at("exchange");
    const bool is_line = cost.alpha_s >= 0 && cost.beta_s_per_byte >= 0 &&
                         are_plausible({{1, cost.alpha_s + cost.beta_s_per_byte}});
    if (is_line && are_plausible(cost.message) && are_plausible(cost.exchange)) {
      // A message between hosts costs many times as much as one inside a host.
      const bool between_hosts = comm.local_size() < comm.size();
      return cost.between_hosts == between_hosts ? std::optional(cost) : std::nullopt;
    }
  } catch (const Json::exception&) {
    // Something is missing or has the wrong type.
  }
  throw refuse("not as send_recv_perf writes it");
}

}  // namespace dist
