// The gradient check passes models that are right, and finds mistakes in others.
#include "05_ddp_training/model/gradient_check.hpp"

#include "tests/support/branched_model.hpp"
#include "tests/support/tied_model.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("a gradient check passes right models, and leaves them as they were",
          "[one process]") {
  const Stream stream(Device{});
  Generator generator(5);
  TiedModel tied(kSmallTied, generator, stream);
  Mlp mlp({3, 8, 11}, generator, stream);
  const Text text(10);
  for (Module* const model : {static_cast<Module*>(&tied), static_cast<Module*>(&mlp)}) {
    const Floats before = all_gradients(*model);
    CHECK(wrong_gradient(*model, text.inputs, text.targets).empty());
    CHECK(all_gradients(*model) == before);
  }
}

namespace {

// Spoils what backward of a right model has done.
class Spoiled : public TiedModel {
 public:
  using Spoil = std::function<void(Spoiled&, Accumulate, const GradReadyHook&)>;
  Spoiled(Options options, Generator& generator, Spoil spoil)
      : TiedModel(options, generator, Stream(Device{})), spoil_(std::move(spoil)) {}
  void backward(const Tensor& grad_logits, const Stream& stream, Accumulate accumulate,
                const GradReadyHook& ready) override {
    if (forgets_hook) return TiedModel::backward(grad_logits, stream, accumulate, {});
    if (is_hasty) {
      for (std::size_t i = 0; ready && i < parameters_.size(); ++i) ready(i);
      return TiedModel::backward(grad_logits, stream, accumulate, {});
    }
    before = all_gradients(*this);
    TiedModel::backward(grad_logits, stream, accumulate, ready);
    if (spoil_) spoil_(*this, accumulate, ready);
  }
  std::span<float> gradient(std::size_t i) { return parameters_[i].grad.span(); }

  bool forgets_hook = false, is_hasty = false;
  Floats before;

 private:
  Spoil spoil_;
};

}  // namespace

TEST_CASE("a gradient check names the first wrong parameter and the mistake", "[one process]") {
  Generator generator(5);
  const Text text(10);
  const auto wrong = [&](Spoiled::Spoil spoil, TiedModel::Options options = kSmallTied) {
    Spoiled model(options, generator, std::move(spoil));
    return wrong_gradient(model, text.inputs, text.targets);
  };
  CHECK(wrong([](Spoiled& model, Accumulate, const auto&) {
          for (float& each : model.gradient(2)) each *= 1.1F;
        }).starts_with("hidden.weight: backward says "));
  CHECK(wrong([](Spoiled& model, Accumulate, const auto&) {
          std::ranges::fill(model.gradient(1), 0.0F);
        }).starts_with("position.weight: backward says "));
  CHECK(wrong([](Spoiled& model, Accumulate accumulate, const auto&) {
          if (accumulate == Accumulate::no) return;
          for (std::size_t i = 0; i < model.gradient(0).size(); ++i) {
            model.gradient(0)[i] -= model.before[i];
          }
        }).starts_with("embedding.weight: with Accumulate::yes, a batch is not added"));
  // A tolerance made from an infinite gradient would pass every other number.
  for (const float number : {HUGE_VALF, kNaN}) {
    CHECK(wrong([=](Spoiled& model, Accumulate, const auto&) {
            model.gradient(2)[3] = number;
          }).starts_with("hidden.weight: element 3 of its gradient is "));
  }
  CHECK(
      wrong({}, {.characters = 11, .width = 6, .ready = TiedModel::Ready::at_the_first_use}) ==
      "embedding.weight: its gradient changed after the hook had named it");
  CHECK(wrong({}, {.characters = 11, .width = 6, .ready = TiedModel::Ready::at_both_uses}) ==
        "embedding.weight: the hook named it 2 times, not once");
  CHECK(wrong([](Spoiled& model, Accumulate accumulate, const auto&) {
          if (accumulate == Accumulate::yes) return;
          for (std::size_t i = 0; i < model.gradient(0).size(); ++i) {
            model.gradient(0)[i] += model.before[i];
          }
        }).starts_with("embedding.weight: with Accumulate::no, what was there before is left"));
  // Names everything before anything is written.
  Spoiled hasty(kSmallTied, generator, {});
  hasty.is_hasty = true;
  CHECK(wrong_gradient(hasty, text.inputs, text.targets) ==
        "embedding.weight: its gradient changed after the hook had named it");
  Spoiled silent(kSmallTied, generator, {});
  silent.forgets_hook = true;
  CHECK(wrong_gradient(silent, text.inputs, text.targets) ==
        "embedding.weight: the hook named it 0 times, not once");
}

namespace {

// Random rows, and a class for each.
struct Rows {
  Rows(std::size_t rows, std::uint64_t seed)
      : inputs({rows, 2 * BranchedModel::kHalf}, Device{}) {
    Generator generator(seed);
    fill_normal(inputs.span(), generator);
    for (const std::int64_t each : randint(0, BranchedModel::kClasses, rows, generator)) {
      targets.push_back(static_cast<std::int32_t>(each));
    }
  }
  Tensor inputs;
  std::vector<std::int32_t> targets;
};

// Its forward is random, as with dropout.
class Restless : public BranchedModel {
 public:
  using BranchedModel::BranchedModel;
  Tensor forward(const Tensor& input, const Stream& stream) override {
    const Tensor logits = BranchedModel::forward(input, stream);
    logits.span()[0] += static_cast<float>(++calls % 3);
    return logits;
  }
  int calls = 0;
};

// With a parameter that forward does not use.
class WithUnused : public BranchedModel {
 public:
  explicit WithUnused(Generator& generator) : BranchedModel({}, generator) {
    add_parameter("unused", {3}, Device{});
  }
  void backward(const Tensor& grad, const Stream& stream, Accumulate accumulate,
                const GradReadyHook& ready) override {
    if (accumulate == Accumulate::no) std::ranges::fill(parameters_.back().grad.span(), 0.0F);
    BranchedModel::backward(grad, stream, accumulate, ready);
  }
};

std::string wrong_in(BranchedModel::Options options, std::uint64_t seed) {
  Generator generator(seed);
  BranchedModel model(options, generator);
  const Rows batch(16, seed + 100);
  return wrong_gradient(model, batch.inputs, batch.targets);
}

// Models of each kind.
std::uint64_t seeds() {
  const char* const number = std::getenv("GRADIENT_SEEDS");
  return number == nullptr ? 3 : std::strtoull(number, nullptr, 10);
}

const std::array kActivations = {Activation::relu, Activation::gelu, Activation::tanh};

}  // namespace

TEST_CASE("a gradient check passes right models with kinks, and behind zeros",
          "[one process]") {
  for (const std::uint64_t seed : std::views::iota(std::uint64_t{0}, seeds())) {
    for (const Activation activation : kActivations) {
      for (const bool zero_branch : {false, true}) {
        for (const bool norm : {false, true}) {
          CAPTURE(seed, static_cast<int>(activation), zero_branch, norm);
          CHECK(wrong_in({activation, zero_branch, norm}, seed) == "");
        }
      }
    }
  }
}

TEST_CASE("a gradient check finds each mistake, also behind a zero", "[one process]") {
  for (int mistake = 1; mistake <= static_cast<int>(Mistake::branch_halved); ++mistake) {
    for (const std::uint64_t seed : std::views::iota(std::uint64_t{0}, seeds())) {
      for (const bool zero_branch : {false, true}) {
        const Activation activation = kActivations.at(seed % 3);
        CAPTURE(mistake, seed, zero_branch);
        CHECK(wrong_in({activation, zero_branch, true, static_cast<Mistake>(mistake)}, seed) !=
              "");
      }
    }
  }
}

TEST_CASE("a gradient check says what it has compared, and refuses where it cannot",
          "[one process]") {
  Generator generator(1);
  BranchedModel model({}, generator);
  const Rows batch(16, 1);
  std::string compared;
  CHECK(wrong_gradient(model, batch.inputs, batch.targets, &compared) == "");
  CHECK(compared == "108 of 494 numbers, at 9 places");
  WithUnused with_unused(generator);
  CHECK(wrong_gradient(with_unused, batch.inputs, batch.targets, &compared) == "");
  CHECK(compared.ends_with("; all that was compared is 0 in unused"));
  Restless restless({}, generator);
  CHECK(wrong_gradient(restless, batch.inputs, batch.targets)
            .starts_with("loss: two forwards of the same batch give "));
}
