#include "05_ddp_training/explain/snapshot.hpp"

#include "02_broadcast/fingerprint.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <span>

namespace dist {
namespace {

Snapshots of_each(const Mlp& model, const Stream& stream, Tensor Parameter::*part) {
  Snapshots all;
  for (const Parameter& parameter : model.parameters()) {
    all.push_back(snapshot(parameter.name, parameter.*part, stream));
  }
  return all;
}

}  // namespace

std::string text_of(const std::vector<float>& values, std::size_t columns) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += i % columns == 0 ? "; " : " ";
    text += fmt::format("{:g}", values[i]);
  }
  return text + "]";
}

std::string Snapshot::row(std::size_t index) const {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(index * columns);
  return text_of(std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(columns)));
}

Snapshot snapshot(const std::string& name, const Tensor& tensor, const Stream& stream) {
  return {name, to_host(stream, tensor), tensor.shape().back()};
}

Snapshots parameters_of(const Mlp& model, const Stream& stream) {
  return of_each(model, stream, &Parameter::value);
}

Snapshots gradients_of(const Mlp& model, const Stream& stream) {
  return of_each(model, stream, &Parameter::grad);
}

std::string text_of(const Snapshots& all) {
  std::string text;
  for (const Snapshot& one : all) {
    text += fmt::format("{}{} {}", text.empty() ? "" : "  ", one.name, one.text());
  }
  return text;
}

Json json_of(const Snapshots& all) {
  Json object = Json::object();
  for (const Snapshot& one : all) object[one.name] = one.values;
  return object;
}

std::string hash_of(const Snapshots& all) {
  std::uint64_t hash = 0;
  for (const Snapshot& one : all) hash = fingerprint(one.values, hash);
  return fmt::format("{:016x}", hash);
}

}  // namespace dist
