// Lesson 5: what the operations make of NaN, infinities and large numbers, compared with
// PyTorch's output (tests/golden/nonfinite.json).
#include "05_ddp_training/model/kernels.hpp"
#include "05_ddp_training/model/linear.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "tests/support/lesson05.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

using nlohmann::json;

// The numbers in nested lists, one after the other.
Floats numbers_in(const json& list) {
  if (list.is_string()) return {std::strtof(list.get<std::string>().c_str(), nullptr)};
  if (!list.is_array()) return {list.get<float>()};
  Floats all;
  for (const json& each : list) {
    for (const float number : numbers_in(each)) all.push_back(number);
  }
  return all;
}

// The results of an operation of the file.
std::vector<Floats> results_of(const std::string& op, const json& in, const Stream& stream,
                               Precision precision) {
  const auto input = [&](const std::string& name) {
    const json& list = in.at(name);
    Shape shape{list.size()};
    if (list[0].is_array()) shape.push_back(list[0].size());
    return upload(stream, numbers_in(list), shape);
  };
  std::vector<Floats> results;
  const auto add = [&](const Tensor& tensor) { results.push_back(to_host(stream, tensor)); };
  CrossEntropyLoss loss;
  const auto add_loss = [&](const Tensor& logits) {
    const auto labels = in.at("t").get<std::vector<std::int32_t>>();
    const Buffer<std::int32_t> targets(labels.size(), stream.device());
    copy_bytes(stream, targets.data(), labels.data(), targets.size_bytes());
    loss.forward(logits, {targets.data(), targets.size()}, stream);
    results.push_back({static_cast<float>(loss.value(stream))});
  };
  if (op == "model") {
    Generator generator(0);
    Mlp model({3, 4, 3}, generator, stream, precision);
    for (const auto& [name, value, grad] : model.parameters()) {
      copy(stream, value, input({name[2], name[0]}));  // 0.weight is w0
    }
    const Tensor x = input("x");
    const Tensor logits = model.forward(x, stream);
    add(logits);
    add_loss(logits);
    model.backward(loss.grad(), stream);
    for (const Parameter& p : model.parameters()) add(p.grad);
    return results;
  }
  if (op == "cross_entropy") {
    add_loss(input("x"));
    add(loss.grad());
    return results;
  }
  const Tensor g = input("g");
  if (in.contains("p")) {  // the second step of an optimizer
    std::vector<Parameter> p{{"p", input("p"), g}};
    const OptimizerOptions momentum{
        .kind = OptimizerKind::sgd, .momentum = 0.75, .dampening = 0.25};
    Optimizer optimizer(
        op == "momentum" ? momentum : OptimizerOptions{.kind = optimizer_names().at(op)}, p,
        stream);
    optimizer.set_steps(1, stream);
    const auto& state = optimizer.state();
    for (std::size_t s = 0; s < state.size(); ++s) {
      copy(stream, state[s].value, input(s == 0 ? "m" : "v"));
    }
    optimizer.step(0.5, stream);
    add(p[0].value);
    for (const auto& each : state) add(each.value);
    return results;
  }
  if (op == "relu") {
    add_bias(stream, g.dim(0), g.dim(1), input("b").data(), g.data(), /*relu=*/true);
  } else if (op == "relu_backward") {
    relu_backward(stream, g.numel(), input("y").data(), g.data());
  } else if (op == "clip") {  // without an optimizer, which would skip the step
    const UpdateTensors tensors{.count = g.numel(), .gradient = g.data()};
    const GradientNorm norm({{0, 0, g.numel(), 0}}, 1, /*is_exchanged=*/false, stream);
    norm.queue_squares({&tensors, 1}, stream);
    double squares = 0;
    copy_bytes(stream, &squares, norm.squares().data(), sizeof squares);
    stream.synchronize();
    UpdateState state;
    prepare_clipping(state, {&squares, 1}, /*limit=*/1.0);
    scale(stream, g.numel(), state.gradient_scale, g.data());
    results.push_back({static_cast<float>(state.norm)});
  }
  add(g);
  return results;
}

}  // namespace

TEST_CASE("NaN, infinities and large numbers pass through operations as in PyTorch",
          "[gpu][one process]") {
  const json file = golden("nonfinite.json");
  CHECK(file.at("ops").size() == 8);
  for (const json& op : file.at("ops")) {
    for (const json& example : op.at("cases")) {
      json in = op.at("cases")[0].at("in");
      in.update(example.at("in"));
      for (const auto& [device, precision] : kinds()) {
        const auto got = results_of(op.at("op"), in, Stream(device), precision);
        const float tolerance = precision == Precision::fp32 ? 1e-6F : 3e-2F;
        for (std::size_t r = 0; r < got.size(); ++r) {
          CAPTURE(op.at("op").dump(), example.dump(), to_string(device), precision, r, got[r]);
          CHECK(std::ranges::equal(
              got[r], numbers_in(example.at("want")[r]), [&](float x, float want) {
                if (!std::isfinite(want)) return std::isnan(want) ? std::isnan(x) : x == want;
                return std::abs(x - want) <= tolerance * std::max(1.0F, std::abs(want));
              }));
        }
      }
    }
  }
}
