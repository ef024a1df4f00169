// Lesson 5: the optimizers and the learning rate schedule, compared with the formulas in double
// precision and with PyTorch's output (tests/golden/optim.json).
#include "05_ddp_training/optimizer/lr_schedule.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "common/check.hpp"
#include "tests/support/device_numbers.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

// The formulas from the papers, as given in PyTorch's documentation.
class PlainOptimizer {
 public:
  PlainOptimizer(OptimizerOptions options, const Floats& parameters)
      : options_(std::move(options)),
        p_(parameters.begin(), parameters.end()),
        first_(p_.size()),
        second_(p_.size()) {}

  void step(double lr, const Floats& gradient) {
    ++t_;
    for (std::size_t i = 0; i < p_.size(); ++i) {
      const auto g = static_cast<double>(gradient[i]);
      options_.name == "sgd" ? sgd(lr, g, i) : adam(lr, g, i);
    }
  }
  const Numbers& parameters() const { return p_; }

 private:
  void sgd(double lr, double g, std::size_t i) {
    g += options_.weight_decay * p_[i];
    double& buffer = first_[i];
    buffer = t_ == 1 ? g : options_.momentum * buffer + (1 - options_.dampening) * g;
    if (options_.momentum == 0) buffer = g;
    p_[i] -= lr * (options_.nesterov ? g + options_.momentum * buffer : buffer);
  }
  void adam(double lr, double g, std::size_t i) {
    const auto [beta1, beta2] = options_.betas;
    if (options_.name == "adamw") {
      p_[i] -= lr * options_.weight_decay * p_[i];
    } else {
      g += options_.weight_decay * p_[i];
    }
    first_[i] = beta1 * first_[i] + (1 - beta1) * g;
    second_[i] = beta2 * second_[i] + (1 - beta2) * g * g;
    const double mean = first_[i] / (1 - std::pow(beta1, t_));
    const double square = second_[i] / (1 - std::pow(beta2, t_));
    p_[i] -= lr * mean / (std::sqrt(square) + options_.eps);
  }

  OptimizerOptions options_;
  Numbers p_, first_, second_;
  int t_ = 0;
};

std::vector<OptimizerOptions> variants() {
  return {
      {.name = "sgd"},
      {.name = "sgd", .weight_decay = 0.1},
      {.name = "sgd", .momentum = 0.9},
      {.name = "sgd", .momentum = 0.9, .nesterov = true},
      {.name = "sgd", .momentum = 0.8, .dampening = 0.3},
      {.name = "sgd", .weight_decay = 0.1, .momentum = 0.8, .dampening = 0.3},
      {.name = "sgd", .weight_decay = 0.1, .momentum = 0.7, .nesterov = true},
      {.name = "adam"},
      {.name = "adam", .weight_decay = 0.1},
      {.name = "adam", .weight_decay = 0.02, .betas = {0.5, 0.9}, .eps = 1e-3},
      {.name = "adamw", .weight_decay = 0.0},
      {.name = "adamw", .weight_decay = 0.1},
      {.name = "adamw", .weight_decay = 0.02, .betas = {0.5, 0.9}, .eps = 1e-3},
  };
}

std::string describe(const OptimizerOptions& options) {
  nlohmann::json json{{"name", options.name},
                      {"weight_decay", options.weight_decay},
                      {"momentum", options.momentum},
                      {"dampening", options.dampening},
                      {"nesterov", options.nesterov},
                      {"betas", options.betas},
                      {"eps", options.eps}};
  return json.dump();
}

// One of the cases of optim.json.
OptimizerOptions options_of(const nlohmann::json& its) {
  const OptimizerOptions defaults;
  return {.name = its.at("type"),
          .lr = its.at("lr"),
          .weight_decay = its.at("weight_decay"),
          .momentum = its.value("momentum", defaults.momentum),
          .dampening = its.value("dampening", defaults.dampening),
          .nesterov = its.value("nesterov", defaults.nesterov),
          .betas = its.value("betas", defaults.betas),
          .eps = its.value("eps", defaults.eps)};
}

// Two parameters: one has `split` elements, and the other has the remaining ones. Each needs
// its own state.
std::vector<Parameter> two_parameters(const Tensor& value, const Tensor& grad,
                                      std::size_t split) {
  const std::size_t rest = value.numel() - split;
  return {{"a", value.narrow(0, split), grad.narrow(0, split)},
          {"b", value.narrow(split, rest), grad.narrow(split, rest)}};
}

}  // namespace

TEST_CASE("four steps of every optimizer match PyTorch's bit for bit", "[gpu]") {
  const nlohmann::json file = golden("optim.json");
  CHECK(file.at("cases").size() == 8);
  for (const nlohmann::json& example : file.at("cases")) {
    const OptimizerOptions options = options_of(example.at("optimizer"));
    for (const Device device : devices()) {
      CAPTURE(to_string(device), describe(options));
      const Stream stream(device);
      const Tensor value = upload(stream, file.at("p0").get<Floats>());
      const Tensor grad({11}, device);
      std::vector<Parameter> parameters = two_parameters(value, grad, 4);
      const auto optimizer = make_optimizer(options, parameters, stream);
      for (std::size_t step = 0; step < 4; ++step) {
        CAPTURE(step);
        copy(stream, grad, upload(stream, file.at("grads").at(step).get<Floats>()));
        optimizer->step(options.lr, stream);
        CHECK(to_host(stream, value) == example.at("params_after").at(step).get<Floats>());
      }
    }
  }
  std::vector<Parameter> none;
  CHECK_THROWS_AS(make_optimizer({.name = "lion"}, none, Stream(Device{})), Error);
}

TEST_CASE("every optimizer follows its formula, with a different learning rate in each step",
          "[gpu]") {
  for (const OptimizerOptions& options : variants()) {
    for (const std::size_t count : {2U, 17U, 1000U}) {
      CAPTURE(describe(options), count);
      const Floats before = noise(count, 70);
      PlainOptimizer plain(options, before);
      for (int step = 0; step < 5; ++step) {
        plain.step(0.01 * (step + 1), noise(count, 71 + static_cast<std::uint64_t>(step)));
      }
      const Floats got = everywhere([&](const Stream& stream) {
        const Tensor value = upload(stream, before);
        const Tensor grad({count}, stream.device());
        std::vector<Parameter> parameters = two_parameters(value, grad, count / 2);
        const auto optimizer = make_optimizer(options, parameters, stream);
        for (int step = 0; step < 5; ++step) {
          const auto seed = 71 + static_cast<std::uint64_t>(step);
          copy(stream, grad, upload(stream, noise(count, seed)));
          optimizer->step(0.01 * (step + 1), stream);
        }
        CHECK(optimizer->steps(stream) == 5);
        return to_host(stream, value);
      });
      CHECK(largest_error(got, plain.parameters()) < 1e-6);
    }
  }
}

TEST_CASE("a learning rate of 0 leaves the parameters unchanged", "[gpu]") {
  for (const OptimizerOptions& options : variants()) {
    CAPTURE(describe(options));
    const Floats before = noise(50, 80);
    const Floats after = everywhere([&](const Stream& stream) {
      const Tensor value = upload(stream, before);
      std::vector<Parameter> parameters{{"a", value, upload(stream, noise(50, 81))}};
      const auto optimizer = make_optimizer(options, parameters, stream);
      optimizer->step(0.0, stream);
      optimizer->step(0.0, stream);
      return to_host(stream, value);
    });
    CHECK(after == before);
  }
}

TEST_CASE("without weight decay, an infinite parameter does not spoil the optimizer's state",
          "[gpu]") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const OptimizerOptions& options : variants()) {
    if (options.weight_decay != 0.0) continue;
    CAPTURE(describe(options));
    const Floats got = everywhere([&](const Stream& stream) {
      const Tensor value = upload(stream, {infinity, 1.0F});
      std::vector<Parameter> parameters{{"a", value, upload(stream, {1.0F, 1.0F})}};
      const auto optimizer = make_optimizer(options, parameters, stream);
      optimizer->step(0.1, stream);
      Floats all = to_host(stream, value);
      for (const Optimizer::State& state : optimizer->state()) {
        const Floats numbers = to_host(stream, state.value);
        CHECK(numbers[0] == numbers[1]);  // both elements saw the same gradient
      }
      all.erase(all.begin() + 1);
      return Floats{std::isinf(all[0]) ? 1.0F : 0.0F};
    });
    CHECK(got == Floats{1.0F});
  }
}

TEST_CASE("an optimizer that is given another's state continues with the same bits", "[gpu]") {
  const std::size_t count = 30;
  for (const OptimizerOptions& options : variants()) {
    for (const Device device : devices()) {
      CAPTURE(describe(options), to_string(device));
      const Stream stream(device);
      const Tensor value = upload(stream, noise(count, 90));
      const Tensor grad = upload(stream, noise(count, 91));
      std::vector<Parameter> parameters = two_parameters(value, grad, 7);
      const auto optimizer = make_optimizer(options, parameters, stream);
      for (int step = 0; step < 3; ++step) optimizer->step(0.1, stream);

      const Tensor its_value = upload(stream, to_host(stream, value));
      std::vector<Parameter> its_parameters = two_parameters(its_value, grad, 7);
      const auto successor = make_optimizer(options, its_parameters, stream);
      CHECK(successor->state().size() == optimizer->state().size());
      for (std::size_t i = 0; i < optimizer->state().size(); ++i) {
        CHECK(successor->state()[i].name == optimizer->state()[i].name);
        copy(stream, successor->state()[i].value, optimizer->state()[i].value);
      }
      successor->set_steps(optimizer->steps(stream), stream);
      optimizer->step(0.1, stream);
      successor->step(0.1, stream);
      CHECK(to_host(stream, its_value) == to_host(stream, value));
    }
  }
  // The parts of the state have PyTorch's names. SGD without momentum has no state.
  const Stream stream(Device{});
  std::vector<Parameter> parameters{{"0.weight", Tensor({2}, {}), Tensor({2}, {})},
                                    {"0.bias", Tensor({1}, {}), Tensor({1}, {})}};
  const auto names = [&](const OptimizerOptions& options) {
    std::vector<std::string> all;
    const auto optimizer = make_optimizer(options, parameters, stream);
    for (const Optimizer::State& state : optimizer->state()) all.push_back(state.name);
    return all;
  };
  using Names = std::vector<std::string>;
  CHECK(names({.name = "sgd"}).empty());
  CHECK(names({.name = "sgd", .momentum = 0.9}) ==
        Names{"momentum_buffer.0.weight", "momentum_buffer.0.bias"});
  CHECK(names({.name = "adamw"}) == Names{"exp_avg.0.weight", "exp_avg.0.bias",
                                          "exp_avg_sq.0.weight", "exp_avg_sq.0.bias"});
}

TEST_CASE("the learning rate rises linearly, then stays constant") {
  const auto rates = [](const LrSchedule& schedule, std::size_t steps) {
    Numbers all;
    for (std::size_t step = 0; step < steps; ++step) all.push_back(schedule.at(step));
    return all;
  };
  CHECK(rates(warmed_up(0.1, 0), 3) == Numbers{0.1, 0.1, 0.1});
  CHECK(largest_error(rates(warmed_up(0.1, 4), 6), Numbers{0.0, 0.025, 0.05, 0.075, 0.1, 0.1}) <
        1e-15);
  // The learning rate rises from the rate for one rank to the rate for all ranks.
  CHECK(rates(linearly_scaled(0.125, 4, 0), 2) == Numbers{0.5, 0.5});
  CHECK(rates(linearly_scaled(0.125, 4, 3), 5) == Numbers{0.125, 0.25, 0.375, 0.5, 0.5});
  CHECK(rates(linearly_scaled(0.1, 1, 5), 7) == Numbers(7, 0.1));
  // Even in a long warm-up, no rate exceeds the final one, which is reached exactly.
  const LrSchedule odd = linearly_scaled(1e-3, 7, 997);
  for (std::size_t step = 1; step < 1100; ++step) {
    CHECK(odd.at(step) >= odd.at(step - 1));
    CHECK(odd.at(step) <= odd.end);
  }
  CHECK(odd.at(997) == 7e-3);
  CHECK(odd.at(std::numeric_limits<std::size_t>::max()) == 7e-3);
}
