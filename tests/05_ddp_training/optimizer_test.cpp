// The optimizers, compared with PyTorch's output (tests/golden/optim.json), and steps that are
// skipped.
#include "05_ddp_training/optimizer/optimizer.hpp"

#include "common/check.hpp"
#include "tests/support/lesson05.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

using namespace dist;
using namespace dist::test;

// The options of one of the cases of optim.json.
static OptimizerOptions its_options(const nlohmann::json& example) {
  const nlohmann::json& its = example.at("optimizer");
  const OptimizerOptions defaults;
  return {.kind = optimizer_names().at(its.at("type")),
          .lr = its.at("lr"),
          .weight_decay = its.at("weight_decay"),
          .momentum = its.value("momentum", defaults.momentum),
          .dampening = its.value("dampening", defaults.dampening),
          .nesterov = its.value("nesterov", defaults.nesterov),
          .betas = its.value("betas", defaults.betas),
          .eps = its.value("eps", defaults.eps)};
}

TEST_CASE("four steps of every optimizer match PyTorch's bit for bit, at any size",
          "[gpu][one process]") {
  const nlohmann::json file = golden("optim.json");
  for (const OptimizerFacts& each : kOptimizers) {
    CAPTURE(each.name);
    CHECK(std::ranges::any_of(file.at("cases"), [&](const nlohmann::json& example) {
      return its_options(example).kind == each.kind;
    }));
  }
  for (const nlohmann::json& example : file.at("cases")) {
    const OptimizerOptions options = its_options(example);
    for (const std::size_t times : {1U, 91U}) {
      // PyTorch's 11 numbers, and the same numbers over and over.
      const auto repeated = [&](const nlohmann::json& list) {
        Floats all;
        for (std::size_t i = 0; i < times; ++i) {
          const auto numbers = list.get<Floats>();
          all.insert(all.end(), numbers.begin(), numbers.end());
        }
        return all;
      };
      const Floats after = everywhere([&](const Stream& stream) {
        const Tensor value = upload(stream, repeated(file.at("p0")));
        const Tensor grad({value.numel()}, stream.device());
        std::vector<Parameter> parameters = two_parameters(value, grad, 4);
        Optimizer optimizer(options, parameters, stream);
        for (std::size_t step = 0; step < 4; ++step) {
          CAPTURE(example.at("optimizer").dump(), times, step);
          copy(stream, grad, upload(stream, repeated(file.at("grads").at(step))));
          optimizer.step(options.lr, stream);
          CHECK(to_host(stream, value) == repeated(example.at("params_after").at(step)));
        }
        CHECK(optimizer.steps(stream) == 4);
        return to_host(stream, value);
      });
      CHECK(after == repeated(example.at("params_after").at(3)));
    }
  }
}

TEST_CASE("a step with a gradient that is not finite is skipped; after ten in a row, all are",
          "[gpu][one process]") {
  for (const Device device : devices()) {
    CAPTURE(to_string(device));
    const Stream stream(device);
    const Tensor value = upload(stream, noise(50, 82));
    const Tensor grad({50}, device);
    std::vector<Parameter> parameters = two_parameters(value, grad, 7);
    Optimizer optimizer({.kind = OptimizerKind::adam}, parameters, stream);
    const auto moves = [&](float number) {
      const Floats before = to_host(stream, value);
      const std::size_t steps = optimizer.steps(stream);
      Floats numbers = noise(50, 83);
      numbers[9] = number;
      copy(stream, grad, upload(stream, numbers));
      optimizer.step(0.1, stream);
      const bool moved = to_host(stream, value) != before;
      CHECK(optimizer.report().is_open() == moved);
      CHECK(optimizer.steps(stream) == steps + (moved ? 1 : 0));
      CHECK(optimizer.report().culprit == (std::isfinite(number) ? -1 : 1));
      return moved;
    };
    for (int i = 0; i < 9; ++i) CHECK_FALSE(moves(kNaN));
    CHECK(moves(1.0F));  // the count starts again at 0
    for (int i = 0; i < 10; ++i) CHECK_FALSE(moves(kNaN));
    CHECK(optimizer.report().skipped_in_a_row == UpdateState::kMostSkippedInARow);
    // The host learns of a skipped step only after it has queued later ones, so the device must
    // skip those as well.
    copy(stream, grad, upload(stream, noise(50, 83)));
    const Floats before = to_host(stream, value);
    optimizer.step(0.1, stream);
    CHECK(to_host(stream, value) == before);
  }
}

TEST_CASE(
    "a parameter that does not decay takes the steps of an optimizer without weight decay",
    "[gpu][one process]") {
  for (const OptimizerFacts& each : kOptimizers) {
    for (const double momentum : {0.0, 0.9}) {
      CAPTURE(each.name, momentum);
      const auto two_steps = [&](double weight_decay, bool decays, const Stream& stream) {
        const Tensor value = upload(stream, noise(9000, 82));
        const Tensor grad = upload(stream, noise(9000, 83));
        std::vector<Parameter> parameters = two_parameters(value, grad, 4500);
        parameters[1].decays = decays;
        Optimizer optimizer(
            {.kind = each.kind, .weight_decay = weight_decay, .momentum = momentum}, parameters,
            stream);
        for (int step = 0; step < 2; ++step) optimizer.step(0.1, stream);
        return to_host(stream, value);
      };
      for (const Device device : devices()) {
        const Stream stream(device);
        const Floats all = two_steps(0.3, true, stream), some = two_steps(0.3, false, stream);
        const Floats none = two_steps(0, true, stream);
        const auto half = all.begin() + 4500;
        CHECK(Floats(all.begin(), half) != Floats(none.begin(), none.begin() + 4500));
        CHECK(Floats(all.begin(), half) == Floats(some.begin(), some.begin() + 4500));
        CHECK(Floats(none.begin() + 4500, none.end()) ==
              Floats(some.begin() + 4500, some.end()));
      }
    }
  }
}

TEST_CASE("a parameter's momentum has PyTorch's name", "[one process]") {
  std::vector<Parameter> parameters{{"0.bias", Tensor({2}, {}), Tensor({2}, {})}};
  Optimizer optimizer({.kind = OptimizerKind::sgd, .momentum = 0.9}, parameters,
                      Stream(Device{}));
  REQUIRE(optimizer.state().size() == 1);
  CHECK(optimizer.state()[0].name == "momentum_buffer.0.bias");
  const Optimizer adam({.kind = OptimizerKind::adam}, parameters, Stream(Device{}));
  CHECK(adam.state()[0].name == "exp_avg.0.bias");
}
