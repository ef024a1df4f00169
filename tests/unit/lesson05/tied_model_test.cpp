// A parameter that is used twice, and models other than an Mlp: PyTorch's gradients, the same
// gradients however many ranks and batches share them, and a gradient check that finds
// mistakes.
#include "05_ddp_training/break_it/tied_model.hpp"

#include "05_ddp_training/model/gradient_check.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/lesson05.hpp"

#include <cmath>
#include <numeric>
#include <optional>

using namespace dist;
using namespace dist::test;

namespace {

constexpr TiedModel::Options kSmall{.characters = 11, .width = 6};

// The norm of the difference, relative to that of `right`.
double relative(std::span<const float> found, std::span<const float> right) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    off += std::pow(double{found[i]} - right[i], 2);
    all += std::pow(double{right[i]}, 2);
  }
  return found.size() == right.size() ? std::sqrt(off / all) : HUGE_VAL;
}

// Sentences of random characters.
struct Text {
  explicit Text(std::size_t rows, std::uint64_t seed = 3)
      : inputs({rows, TiedModel::kContext}, Device{}) {
    Generator generator(seed);
    const auto random = randint(0, kSmall.characters, inputs.numel() + rows, generator);
    std::ranges::copy_n(random.begin(), static_cast<std::ptrdiff_t>(inputs.numel()),
                        inputs.span().begin());
    for (std::size_t i = inputs.numel(); i < random.size(); ++i) {
      targets.push_back(static_cast<std::int32_t>(random[i]));
    }
  }
  Tensor rows(std::size_t begin, std::size_t count) const {
    return inputs.narrow(begin * TiedModel::kContext, count * TiedModel::kContext)
        .view({count, TiedModel::kContext});
  }

  Tensor inputs;
  std::vector<std::int32_t> targets;
};

Floats all_gradients(const Module& model) {
  Floats all;
  for (const Parameter& parameter : model.parameters()) {
    all.insert(all.end(), parameter.grad.span().begin(), parameter.grad.span().end());
  }
  return all;
}

}  // namespace

TEST_CASE("the tied model's gradients are PyTorch's, of one batch and of two that add up") {
  const Stream stream(Device{});
  const auto file = golden("tied.json");
  Generator generator(0);
  TiedModel model(kSmall, generator, stream);
  for (const Parameter& parameter : model.parameters()) {
    const auto values = file.at("parameters").at(parameter.name).get<Floats>();
    REQUIRE(values.size() == parameter.value.numel());
    std::ranges::copy(values, parameter.value.span().begin());
  }
  const auto ids = file.at("ids").get<Floats>();
  const auto targets = file.at("targets").get<std::vector<std::int32_t>>();
  const Tensor inputs({20, TiedModel::kContext}, Device{});
  std::ranges::copy(ids, inputs.span().begin());

  CrossEntropyLoss loss;
  const auto run = [&](std::size_t begin, std::size_t count, Accumulate accumulate,
                       const std::string& name) {
    const Tensor batch = inputs.narrow(begin * TiedModel::kContext, count * TiedModel::kContext)
                             .view({count, TiedModel::kContext});
    loss.forward(model.forward(batch, stream), std::span(targets).subspan(begin, count),
                 stream);
    model.backward(loss.grad(), stream, accumulate);
    CHECK(std::abs(loss.value(stream) - file.at(name).at("loss").get<double>()) < 1e-6);
    for (const Parameter& parameter : model.parameters()) {
      INFO(name << ", " << parameter.name);
      const auto right = file.at(name).at("gradients").at(parameter.name).get<Floats>();
      CHECK(relative(parameter.grad.span(), right) < 3e-6);
    }
  };
  run(0, 12, Accumulate::no, "first");
  run(12, 8, Accumulate::yes, "both");
}

TEST_CASE(
    "ranks and accumulated batches give the tied model the gradients of one whole batch") {
  const Stream stream(Device{});
  const auto ranks = static_cast<std::size_t>(world().size());
  constexpr std::size_t kRows = 4, kParts = 3;
  const Text text(kRows * kParts * ranks);
  for (const bool table_is_last : {false, true}) {
    TiedModel::Options options = kSmall;
    options.table_is_last = table_is_last;
    Generator one(1), own(static_cast<std::uint64_t>(1 + world().rank()));
    TiedModel whole(options, one, stream), model(options, own, stream);
    CrossEntropyLoss loss;
    loss.forward(whole.forward(text.inputs, stream), text.targets, stream);
    whole.backward(loss.grad(), stream);

    const auto group =
        make_process_group(Backend::ours, world(), Device{}, AllReduceAlgorithm::ring);
    DistributedDataParallel ddp(model, *group, stream, {.first_bytes = 1, .bytes = 1});
    CrossEntropyLoss part_loss;
    for (std::size_t i = 0; i < 2 * kParts; ++i) {  // two steps, without an update
      const std::size_t part = i % kParts;
      const std::size_t begin = (rank() * kParts + part) * kRows;
      const Batch batch{text.rows(begin, kRows),
                        std::span(text.targets).subspan(begin, kRows),
                        {.part = part, .parts = kParts, .accumulate = kParts}};
      part_loss.forward(ddp.forward(batch.inputs, stream), batch, stream);
      ddp.backward(part_loss.grad(), batch.place, stream);
    }
    CHECK(relative(all_gradients(model), all_gradients(whole)) < 1e-6);
  }
}

TEST_CASE("a gradient check passes right models, and leaves them as they were") {
  const Stream stream(Device{});
  Generator generator(5);
  TiedModel tied(kSmall, generator, stream);
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

TEST_CASE("a gradient check names the first wrong parameter and the mistake") {
  Generator generator(5);
  const Text text(10);
  const auto wrong = [&](Spoiled::Spoil spoil, TiedModel::Options options = kSmall) {
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
  Spoiled hasty(kSmall, generator, {});
  hasty.is_hasty = true;
  CHECK(wrong_gradient(hasty, text.inputs, text.targets) ==
        "embedding.weight: its gradient changed after the hook had named it");
  Spoiled silent(kSmall, generator, {});
  silent.forgets_hook = true;
  CHECK(wrong_gradient(silent, text.inputs, text.targets) ==
        "embedding.weight: the hook named it 0 times, not once");
}
