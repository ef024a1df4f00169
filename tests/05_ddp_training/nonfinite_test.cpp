// Lesson 5: what the operations make of NaN, infinities and large numbers, compared with
// PyTorch's output (tests/golden/nonfinite.json), and what training makes of them if a
// library's ReLU is not PyTorch's.
#include "05_ddp_training/model/kernels.hpp"
#include "05_ddp_training/model/linear.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "tests/support/lesson05.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

using nlohmann::json;

// As long as it exists, cuBLASLt's epilogues are not used.
struct WithoutEpilogues {
  WithoutEpilogues() { ::setenv("DIST_NO_EPILOGUES", "1", /*overwrite=*/1); }
  ~WithoutEpilogues() { ::unsetenv("DIST_NO_EPILOGUES"); }
};

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
    const WithoutEpilogues ours;  // a ReLU of theirs may make 0 of NaN (gemm_cuda.cpp)
    Generator generator(0);
    Mlp model({3, 4, 3}, generator, stream, precision);
    for (const auto& [name, value, grad, decays] : model.parameters()) {
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

namespace {

// How a step of a model ends.
struct Outcome {
  bool skipped, diverged;
};

// The model's parameters are `value`, except those that `changes` names.
Outcome outcome_of(const std::vector<std::size_t>& widths, const Floats& x, float value,
                   const std::map<std::string, Floats>& changes, const Stream& stream,
                   Precision precision) {
  Generator generator(0);
  Mlp model(widths, generator, stream, precision);
  for (const auto& [name, tensor, grad, decays] : model.parameters()) {
    const auto found = changes.find(name);
    const Floats numbers =
        found == changes.end() ? Floats(tensor.numel(), value) : found->second;
    copy(stream, tensor, upload(stream, numbers, tensor.shape()));
  }
  Optimizer optimizer({.kind = OptimizerKind::sgd}, model.parameters(), stream);
  const Buffer<double> flag(1, stream.device());
  optimizer.write_divergence_to(flag.data());
  const Buffer<std::int32_t> targets(2, stream.device());
  const Tensor input = upload(stream, x, {2, widths[0]});
  CrossEntropyLoss loss;
  loss.forward(model.forward(input, stream), {targets.data(), targets.size()}, stream);
  model.backward(loss.grad(), stream);
  optimizer.step(0.25, stream);
  double raised = 0;
  copy_bytes(stream, &raised, flag.data(), sizeof raised);
  stream.synchronize();
  return {!optimizer.report().is_open(), raised > 0};
}

}  // namespace

// A ReLU that makes 0 of NaN hides it from the loss, but not from training.
TEST_CASE("NaN and infinities skip the step, or are found in the new parameters",
          "[gpu][one process]") {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kHuge = 3e38F;
  const std::vector<std::size_t> widths{3, 4, 4, 2};
  const Floats x{1, 2, 3, -1, 0.5, 2};
  Floats one_nan(12, 0.5F), one_infinite(12, 0.5F), both_infinities(16, 0.5F);
  one_nan[5] = kNaN;
  one_infinite[5] = -kInf;  // the ReLU makes 0 of what it gives
  for (std::size_t i = 0; i < 16; i += 2) both_infinities[i] = -0.5F;
  for (const auto& [device, precision] : kinds()) {
    CAPTURE(to_string(device), precision);
    const Stream stream(device);
    const auto outcome = [&](const Floats& input,
                             const std::map<std::string, Floats>& changes) {
      return outcome_of(widths, input, 0.5F, changes, stream, precision);
    };
    const Outcome good = outcome(x, {});
    CHECK((!good.skipped && !good.diverged));
    CHECK(outcome({1, 2, 3, -1, kNaN, 2}, {}).skipped);
    // Parameters: some give a gradient that shows it, others do not.
    for (const Outcome& o :
         {outcome(x, {{"0.weight", one_nan}}), outcome(x, {{"0.bias", {1, kNaN, 1, 1}}}),
          outcome(x, {{"2.bias", {1, 1, kNaN, 1}}}), outcome(x, {{"4.bias", {1, kNaN}}}),
          outcome(x, {{"0.weight", one_infinite}})}) {
      CHECK((o.skipped || o.diverged));
    }
    // Activations overflow, and infinity minus infinity is NaN, which a ReLU may lose again.
    CHECK(outcome({kHuge, kHuge, kHuge, 1, 1, 1}, {{"2.weight", both_infinities}}).skipped);
  }
}

TEST_CASE("an update that overflows is found, wherever it is", "[gpu][one process]") {
  constexpr std::size_t kCount = 9000;  // three blocks on a CPU
  for (const Device device : devices()) {
    for (const OptimizerOptions& options :
         {OptimizerOptions{.kind = OptimizerKind::sgd},
          OptimizerOptions{.kind = OptimizerKind::sgd, .momentum = 0.5},
          OptimizerOptions{.kind = OptimizerKind::adam}}) {
      for (const std::size_t at : {std::size_t{0}, std::size_t{5000}, kCount - 1, kCount}) {
        CAPTURE(to_string(device), options.kind, options.momentum, at);
        const Stream stream(device);
        Floats gradient(kCount, 0.0F);
        if (at < kCount) gradient[at] = 2.0F;
        const Tensor value = upload(stream, Floats(kCount, -3.3e38F));
        const Tensor grad = upload(stream, gradient);
        std::vector<Parameter> parameters = two_parameters(value, grad, 10);
        Optimizer optimizer(options, parameters, stream);
        const Buffer<double> flag(1, device);
        optimizer.write_divergence_to(flag.data());
        optimizer.step(3e37, stream);  // Adam's first step is as large as the rate
        double raised = 0;
        copy_bytes(stream, &raised, flag.data(), sizeof raised);
        stream.synchronize();
        CHECK(optimizer.report().is_open());
        CHECK_FALSE(optimizer.report().diverged);
        CHECK(raised == (at < kCount ? 1.0 : 0.0));
        optimizer.step(0.0, stream);
        stream.synchronize();
        CHECK(optimizer.report().diverged == (at < kCount));
      }
    }
  }
}
