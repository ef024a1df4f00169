// Look at: how little is saved. The order of samples and the state of the random number
// generator are not needed, because both are functions of the seed and the position.
#include "05_ddp_training/checkpoint/checkpoint.hpp"

#include "04_distributed_sampler/datasets/refuse.hpp"
#include "common/check.hpp"
#include "common/hash.hpp"
#include "common/join.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace dist {

// The version of the metadata. Increase it when the meaning of an entry changes.
constexpr const char* kVersion = "1";
constexpr const char* kOptimizerPrefix = "optimizer.";
constexpr const char* kSettingPrefix = "run ";
constexpr const char* kRanks = "ranks";
constexpr const char* kSamplesPerStep = "samples per step";

// The checksum of what save_checkpoint says of the run, which no other checksum protects once
// another program has read the file and written it again.
constexpr const char* kRunKey = "xxh3_64_run";
constexpr const char* kPosition[]{"format_version", "step", "epoch", "taken",
                                  "optimizer_steps"};

static std::string run_checksum(const std::map<std::string, std::string>& metadata) {
  Hash all;
  for (const auto& [key, value] : metadata) {
    if (!key.starts_with(kSettingPrefix) && std::ranges::count(kPosition, key) == 0) continue;
    const std::string line = fmt::format("{}={}\n", key, value);
    all.add(line.data(), line.size());
  }
  return fmt::format("{:016x}", all.value());
}

RunSettings run_settings(const std::vector<CommandLine::Value>& values,
                         const std::string& device, std::size_t ranks,
                         std::size_t samples_per_step) {
  RunSettings settings;
  for (const CommandLine::Value& value : values) {
    if (value.effect != Effect::nothing) settings[value.flag] = value;
  }
  // --shard changes how sums are rounded only with --accumulate or a backend other than ours.
  // Otherwise checkpoints of all levels have the same bytes.
  // (A program without these flags does neither.)
  const auto is = [&](const std::string& flag, const std::string& text) {
    return !settings.contains(flag) || settings.at(flag).text == text;
  };
  if (is("--accumulate", "1") && (is("--backend", "auto") || is("--backend", "ours"))) {
    settings.erase("--shard");
  }
  // A flag of release 1.0.0, which compares its value.
  settings["--data-parallel"] = {"--data-parallel", "ddp", Effect::rounding};
  settings["--device"].text = device;
  settings[kRanks].text = std::to_string(ranks);
  settings[kSamplesPerStep].text = std::to_string(samples_per_step);
  return settings;
}

std::vector<TensorSource> checkpoint_tensors(std::span<const Parameter> parameters,
                                             const Optimizer& optimizer) {
  std::vector<TensorSource> all;
  for (const Parameter& parameter : parameters) {
    all.push_back({parameter.name, parameter.value.shape(), [&] { return parameter.value; }});
  }
  for (std::size_t s = 0; s < optimizer.state().size(); ++s) {
    const Optimizer::State& state = optimizer.state()[s];
    all.push_back({kOptimizerPrefix + state.name,
                   parameters[s % parameters.size()].value.shape(),
                   [&] { return state.value; }});
  }
  return all;
}

void save_checkpoint(const std::string& path, const std::vector<TensorSource>& tensors,
                     const Optimizer& optimizer, const Position& position,
                     const RunSettings& settings, const Stream& stream,
                     const std::string& warning) {
  std::map<std::string, std::string> metadata{
      {"format", "pt"},  // as written by PyTorch's save_file; Hugging Face's tools require it
      {"format_version", kVersion},
      {"step", std::to_string(position.step)},
      {"epoch", std::to_string(position.epoch)},
      {"taken", std::to_string(position.taken)},
      {"optimizer_steps", std::to_string(optimizer.steps(stream))}};
  if (!warning.empty()) metadata["warning"] = warning;
  for (const auto& [name, setting] : settings) metadata[kSettingPrefix + name] = setting.text;
  metadata[kRunKey] = run_checksum(metadata);
  write_safetensors(path, tensors, metadata, stream);
}

Checkpoint::Checkpoint(std::string path)
    : path_(std::move(path)), file_(read_safetensors(path_)) {
  for (auto& [name, tensor] : file_.tensors) {
    const std::string whole = name;
    while (name.starts_with("module.") || name.starts_with("_orig_mod.")) {
      name.erase(0, name.find('.') + 1);
    }
    if (name != whole) prefix_ = whole.substr(0, whole.size() - name.size());
  }
}

std::vector<ParameterShape> Checkpoint::parameters() const {
  std::vector<ParameterShape> found;
  for (const auto& [name, tensor] : file_.tensors) {
    if (!name.starts_with(kOptimizerPrefix)) found.push_back({name, tensor.shape()});
  }
  return found;
}

void Checkpoint::require_parameters(std::span<const ParameterShape> wanted) const {
  std::vector<std::string> found;
  for (const auto& [name, tensor] : file_.tensors) {
    if (!name.starts_with(kOptimizerPrefix)) found.push_back(name);
  }
  const std::string few = first_few(found);
  for (const auto& [name, shape] : wanted) {
    const Tensor* tensor = file_.find(name);
    check_file(tensor != nullptr, "{}: does not contain {}, but {}", path_, name, few);
    check_file(tensor->shape() == shape, "{}: {} is {}, but the model's is {}", path_, name,
               to_string(tensor->shape()), to_string(shape));
  }
  for (const std::string& name : found) {
    check_file(std::ranges::count(wanted, name, &ParameterShape::name) > 0,
               "{}: holds {} parameters, but the model has {}, and no {}", path_, found.size(),
               wanted.size(), name);
  }
}

void Checkpoint::require_finite(bool with_state) const {
  for (const auto& [name, tensor] : file_.tensors) {
    if (name.starts_with(kOptimizerPrefix) && !with_state) continue;
    const std::span<const float> values = tensor.span();
    const auto bad = std::ranges::find_if_not(values, [](float x) { return std::isfinite(x); });
    if (bad == values.end()) continue;
    throw Error(fmt::format(
        "{}: element {} of {} is {}, so the run that wrote it had diverged: use an older file",
        path_, bad - values.begin(), name, *bad));
  }
}

std::size_t Checkpoint::number(const std::string& key) const {
  const auto entry = file_.metadata.find(key);
  check_file(entry != file_.metadata.end(),
             "{}: is not a checkpoint of a run, because it has no '{}'", path_, key);
  const std::string& text = entry->second;
  std::size_t value = 0;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr std::size_t kMost = 1ULL << 53;  // small enough that sums cannot overflow
  check_file(problem == std::errc{} && stop == text.data() + text.size() && value <= kMost,
             "{}: its '{}' is '{}', not a number up to 2^53", path_, key, text);
  return value;
}

bool Checkpoint::describes_its_run() const {
  if (file_.checksum == Checksum::whole) return true;
  const auto entry = file_.metadata.find(kRunKey);
  return entry != file_.metadata.end() && entry->second == run_checksum(file_.metadata);
}

std::string Checkpoint::changed() const {
  if (file_.checksum == Checksum::none) return "";
  std::vector<std::string> what;
  if (file_.checksum == Checksum::wrong) what.emplace_back("its tensors");
  if (!describes_its_run()) what.emplace_back("what it says of the run (step, epoch, flags)");
  if (what.empty()) return "";
  return fmt::format("another program has changed {} since a run wrote it: {}", path_,
                     join(what, ", and "));
}

Position Checkpoint::position(std::size_t samples) const {
  const std::size_t version = number("format_version");
  check_file(version == 1, "{}: has format version {}, but this program reads version {}",
             path_, version, kVersion);
  // Our files have a checksum. PyTorch's have none, but they do not hold a position either.
  check_file(file_.checksum != Checksum::none, "{}: has no checksum, so it may be damaged",
             path_);
  const std::string why = changed();
  check_file(why.empty(), "{}; --init takes its parameters", why);
  const Position position{
      .step = number("step"), .epoch = number("epoch"), .taken = number("taken")};
  check_file(position.taken < samples, "{}: its 'taken' is {}, but an epoch has {} samples",
             path_, position.taken, samples);
  check_file(number("optimizer_steps") <= position.step,
             "{}: its 'optimizer_steps' is greater than its {} steps", path_, position.step);
  return position;
}

std::vector<std::string> Checkpoint::require_same_run(const RunSettings& now,
                                                      bool any_ranks) const {
  // A run that did not know a flag did what the flag's default does.
  const auto before = [&](const std::string& name) -> std::string {
    const auto entry = file_.metadata.find(kSettingPrefix + name);
    if (entry != file_.metadata.end()) return entry->second;
    const std::string& standard = now.at(name).default_text;
    return standard.empty() ? "nothing" : standard;
  };
  const std::string& ranks = now.at(kRanks).text;
  const bool other_ranks = ranks != before(kRanks);
  std::vector<std::string> notes;
  for (const auto& [name, setting] : now) {
    const std::string was = before(name);
    if (was == setting.text || name == kRanks) continue;
    if (setting.effect == Effect::rounding) {
      notes.push_back(
          fmt::format("{}: {} instead of {}, so results are rounded differently from here on",
                      name, setting.text, was));
    } else if (name != kSamplesPerStep || !other_ranks || any_ranks) {
      throw Error(
          fmt::format("{}: {}, but {} is from a run with {}", name, setting.text, path_, was));
    }
  }
  if (other_ranks && !any_ranks) {
    notes.push_back(fmt::format(
        "{} ranks instead of {}: different batches from here on, {} samples per step "
        "instead of {}",
        ranks, before(kRanks), now.at(kSamplesPerStep).text, before(kSamplesPerStep)));
  }
  return notes;
}

void Checkpoint::restore(std::span<Parameter> parameters, const Stream& stream) const {
  for (const Parameter& parameter : parameters) {
    copy(stream, parameter.value, *file_.find(parameter.name));
  }
  stream.synchronize();
}

const Tensor& Checkpoint::state(const std::string& name, const Shape& shape) const {
  const Tensor* tensor = file_.find(kOptimizerPrefix + name);
  check_file(tensor != nullptr && tensor->shape() == shape,
             "{}: does not contain {}{} of shape {}", path_, kOptimizerPrefix, name,
             to_string(shape));
  return *tensor;
}

}  // namespace dist
