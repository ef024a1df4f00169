#include "05_ddp_training/trainer/report/metrics_file.hpp"

#include "common/atomic_file.hpp"
#include "common/check.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <utility>

namespace dist {
namespace {

// The lines of `path` for steps before `first_step`. Drops a line that was cut off when the run
// was killed: it is not JSON and belongs to a later step.
std::string lines_before(const std::string& path, std::size_t first_step) {
  std::ifstream file(path);
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!row.contains("step") || !row["step"].is_number_unsigned()) continue;
    if (row["step"] < first_step) kept += line + '\n';
  }
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(std::string path, std::size_t first_step) : path_(std::move(path)) {
  if (first_step > 0) write_file_at_once(path_, lines_before(path_, first_step));
  file_.open(path_, first_step > 0 ? std::ios::app : std::ios::trunc);
  if (!file_) throw Error(fmt::format("--metrics: {} cannot be opened", path_));
}

void MetricsFile::append(const Json& row) {
  if (!problem_.empty()) return;
  file_ << to_text(row) << '\n' << std::flush;
  if (file_) return;
  problem_ = fmt::format("--metrics: {}: cannot be written: {}", path_, std::strerror(errno));
  fmt::print(stderr, "error: {}; training continues without metrics\n", printable(problem_));
}

}  // namespace dist
