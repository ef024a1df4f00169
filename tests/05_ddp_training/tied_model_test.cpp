// A parameter that is used twice: PyTorch's gradients, and the same gradients however many
// ranks and batches share them.
#include "tests/support/tied_model.hpp"

#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/sharding/sharded_data_parallel.hpp"
#include "tests/support/golden.hpp"

#include <cmath>
#include <span>
#include <string>

using namespace dist;
using namespace dist::test;

// The norm of the difference, relative to that of `right`.
static double relative(std::span<const float> found, std::span<const float> right) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    off += std::pow(double{found[i]} - right[i], 2);
    all += std::pow(double{right[i]}, 2);
  }
  return found.size() == right.size() ? std::sqrt(off / all) : HUGE_VAL;
}

TEST_CASE("the tied model's gradients are PyTorch's, of one batch and of two that add up",
          "[one process]") {
  const Stream stream(Device{});
  const auto file = golden("tied.json");
  Generator generator(0);
  TiedModel model(kSmallTied, generator, stream);
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
    TiedModel::Options options = kSmallTied;
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

TEST_CASE(
    "the first level of sharding takes any module, with DDP's bits; the others refuse it") {
  const Stream stream(Device{});
  const auto group =
      make_process_group(Backend::ours, world(), Device{}, AllReduceAlgorithm::ring);
  constexpr BucketCaps kSmall{.first_bytes = 100, .bytes = 200};
  const auto train = [&](auto wrap) {
    Generator generator(1);
    TiedModel model(kSmallTied, generator, stream);
    model.parameters()[1].decays = false;
    const auto ddp = wrap(model);
    const auto optimizer =
        ddp->make_optimizer({.lr = 0.01, .weight_decay = 0.5, .clip_norm = 0.5}, stream);
    CrossEntropyLoss loss;
    for (std::uint64_t step = 0; step < 5; ++step) {
      const Text text(8, 100 * step + rank());
      const Batch batch{text.inputs, text.targets, {}};
      loss.forward(ddp->forward(batch.inputs, stream), batch, stream);
      ddp->backward(loss.grad(), batch.place, stream);
      optimizer->step(0.01, stream);
    }
    Floats all;
    for (const Parameter& parameter : model.parameters()) {
      all.insert(all.end(), parameter.value.span().begin(), parameter.value.span().end());
    }
    return all;
  };
  const auto sharded = [&](ShardLevel level) {
    return [&, level](TiedModel& model) {
      return std::make_unique<ShardedDataParallel>(model, *group, stream, level, kSmall);
    };
  };
  CHECK(train(sharded(ShardLevel::optimizer)) == train([&](TiedModel& model) {
          return std::make_unique<DistributedDataParallel>(model, *group, stream, kSmall);
        }));
  for (const ShardLevel level : {ShardLevel::gradients, ShardLevel::parameters}) {
    CHECK_THROWS_AS(train(sharded(level)), Error);
  }
}
