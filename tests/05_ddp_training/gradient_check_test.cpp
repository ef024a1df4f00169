// The gradient check passes models that are right, and finds mistakes in others.
#include "05_ddp_training/model/gradient_check.hpp"

#include "tests/support/tied_model.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

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
