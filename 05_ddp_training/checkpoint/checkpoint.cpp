// Look at: how little is saved. The order of samples and the state of the random number
// generator are not needed, because both are functions of the seed and the position.
#include "05_ddp_training/checkpoint/checkpoint.hpp"

#include "common/check.hpp"

#include <fmt/core.h>

#include <charconv>
#include <map>
#include <utility>
#include <vector>

namespace dist {
namespace {

// The version of the metadata. Increase it when the meaning of an entry changes.
constexpr const char* kVersion = "1";
constexpr const char* kOptimizerPrefix = "optimizer.";
constexpr const char* kSettingPrefix = "run ";

}  // namespace

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
                     const RunSettings& settings, const Stream& stream) {
  std::map<std::string, std::string> metadata{
      {"format", "pt"},  // as written by PyTorch's save_file; Hugging Face's tools require it
      {"format_version", kVersion},
      {"step", std::to_string(position.step)},
      {"epoch", std::to_string(position.epoch)},
      {"taken", std::to_string(position.taken)},
      {"optimizer_steps", std::to_string(optimizer.steps(stream))}};
  for (const auto& [name, value] : settings) metadata[kSettingPrefix + name] = value;
  write_safetensors(path, tensors, metadata, stream);
}

Checkpoint::Checkpoint(std::string path)
    : path_(std::move(path)), file_(read_safetensors(path_)) {}

void Checkpoint::require_parameters(const std::vector<std::size_t>& widths) const {
  const std::vector<ParameterShape> wanted = parameter_shapes(widths);
  std::size_t found = 0;
  for (const auto& [name, tensor] : file_.tensors) found += !name.starts_with(kOptimizerPrefix);
  for (const auto& [name, shape] : wanted) {
    const Tensor* tensor = file_.find(name);
    if (tensor == nullptr) throw Error(fmt::format("{}: does not contain {}", path_, name));
    if (tensor->shape() != shape) {
      throw Error(fmt::format("{}: {} is {}, but the model's is {}", path_, name,
                              to_string(tensor->shape()), to_string(shape)));
    }
  }
  if (found > wanted.size()) {
    throw Error(fmt::format("{}: holds {} parameters, but the model has {}", path_, found,
                            wanted.size()));
  }
}

std::size_t Checkpoint::number(const std::string& key) const {
  const auto entry = file_.metadata.find(key);
  if (entry == file_.metadata.end()) {
    throw Error(
        fmt::format("{}: is not a checkpoint of a run, because it has no '{}'", path_, key));
  }
  const std::string& text = entry->second;
  std::size_t value = 0;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr std::size_t kMost = 1ULL << 53;  // small enough that sums cannot overflow
  if (problem != std::errc{} || stop != text.data() + text.size() || value > kMost) {
    throw Error(fmt::format("{}: its '{}' is '{}', not a number up to 2^53", path_, key, text));
  }
  return value;
}

Position Checkpoint::position(std::size_t samples) const {
  if (const std::size_t version = number("format_version"); version != 1) {
    throw Error(fmt::format("{}: has format version {}, but this program reads version {}",
                            path_, version, kVersion));
  }
  // Our files have a checksum. PyTorch's have none, but they do not hold a position either.
  if (!file_.has_checksum) {
    throw Error(path_ + ": has no checksum, so it may be damaged");
  }
  const Position position{
      .step = number("step"), .epoch = number("epoch"), .taken = number("taken")};
  if (position.taken >= samples) {
    throw Error(fmt::format("{}: its 'taken' is {}, but an epoch has {} samples", path_,
                            position.taken, samples));
  }
  if (number("optimizer_steps") > position.step) {
    throw Error(fmt::format("{}: its 'optimizer_steps' is greater than its {} steps", path_,
                            position.step));
  }
  return position;
}

RunSettings Checkpoint::settings() const {
  RunSettings settings;
  const std::string prefix = kSettingPrefix;
  for (const auto& [key, value] : file_.metadata) {
    if (key.starts_with(prefix)) settings[key.substr(prefix.size())] = value;
  }
  return settings;
}

void Checkpoint::restore(std::span<Parameter> parameters, const Stream& stream) const {
  for (const Parameter& parameter : parameters) {
    copy(stream, parameter.value, *file_.find(parameter.name));
  }
  stream.synchronize();
}

const Tensor& Checkpoint::state(const std::string& name, const Shape& shape) const {
  const Tensor* tensor = file_.find(kOptimizerPrefix + name);
  if (tensor == nullptr || tensor->shape() != shape) {
    throw Error(fmt::format("{}: does not contain {}{} of shape {}", path_, kOptimizerPrefix,
                            name, to_string(shape)));
  }
  return *tensor;
}

}  // namespace dist
