#include "05_ddp_training/trainer/metrics_file.hpp"

#include "common/check.hpp"
#include "common/output_file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace dist {
namespace {

// The lines of `path` that tell of steps before `first_step`. One that was torn when the run
// was killed is no JSON, and of a later step.
std::string lines_before(const std::string& path, std::size_t first_step) {
  std::ifstream file(path);
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!row.is_object() || !row.contains("step")) continue;
    if (!row["step"].is_number_unsigned() || row["step"].get<std::size_t>() >= first_step)
      continue;
    kept += line + '\n';
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
  file_ << row.dump() << '\n' << std::flush;
  if (!file_) throw Error(fmt::format("{}: cannot be written", path_));
}

}  // namespace dist
