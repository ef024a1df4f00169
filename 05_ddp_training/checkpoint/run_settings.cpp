#include "05_ddp_training/checkpoint/run_settings.hpp"

#include "common/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace dist {
namespace {

// None of these flags changes a computed number by itself. The data is compared by content, and
// the batch size by the number of samples per step.
constexpr std::array<std::string_view, 20> kFree{
    "--data",    "--batch-size",     "--global-batch",     "--epochs",  "--max-steps",
    "--init",    "--checkpoint",     "--checkpoint-every", "--resume",  "--evaluate",
    "--metrics", "--check-replicas", "--overlap",          "--json",    "--trace",
    "--strict",  "--timeout",        "--explain",          "test data", "--pretend-link"};
// These flags change how products and sums are rounded: the last digits of the results.
constexpr std::array<std::string_view, 10> kRounding{
    "--device",        "--threads",         "--backend", "--algorithm", "--data-parallel",
    "--bucket-cap-mb", "--first-bucket-mb", "--graph",   "--precision", "--shard"};

constexpr const char* kRanks = "ranks";
constexpr const char* kSamplesPerStep = "samples per step";

template <class List>
bool contains(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

std::string value_in(const RunSettings& settings, const std::string& name) {
  const auto entry = settings.find(name);
  return entry == settings.end() ? "nothing" : entry->second;
}

}  // namespace

RunSettings run_settings(const std::vector<CommandLine::Value>& values,
                         const std::string& device, std::size_t ranks,
                         std::size_t samples_per_step) {
  RunSettings settings;
  for (const auto& [name, text] : values) {
    if (!contains(kFree, name)) settings[name] = text;
  }
  // --shard changes how sums are rounded only with --accumulate or a backend other than ours.
  // Otherwise checkpoints of all levels have the same bytes.
  const std::string backend = value_in(settings, "--backend");
  if (value_in(settings, "--accumulate") == "1" && (backend == "auto" || backend == "ours")) {
    settings.erase("--shard");
  }
  settings["--data-parallel"] = "ddp";  // a flag of release 1.0.0, which compares its value
  settings["--device"] = device;
  settings[kRanks] = std::to_string(ranks);
  settings[kSamplesPerStep] = std::to_string(samples_per_step);
  return settings;
}

std::vector<std::string> require_same_run(const RunSettings& before, const RunSettings& now,
                                          const std::string& file, bool any_ranks) {
  const bool other_ranks = value_in(before, kRanks) != value_in(now, kRanks);
  std::vector<std::string> notes;
  for (const auto& [name, value] : now) {
    const std::string was = value_in(before, name);
    if (was == value || name == kRanks) continue;
    if (contains(kRounding, name)) {
      notes.push_back(
          fmt::format("{}: {} instead of {}, so results are rounded differently from here on",
                      name, value, was));
    } else if (name != kSamplesPerStep || !other_ranks || any_ranks) {
      throw Error(fmt::format("{}: {}, but {} is from a run with {}", name, value, file, was));
    }
  }
  if (other_ranks && !any_ranks) {
    notes.push_back(fmt::format(
        "{} ranks instead of {}: different batches from here on, {} samples per step "
        "instead of {}",
        value_in(now, kRanks), value_in(before, kRanks), value_in(now, kSamplesPerStep),
        value_in(before, kSamplesPerStep)));
  }
  return notes;
}

}  // namespace dist
