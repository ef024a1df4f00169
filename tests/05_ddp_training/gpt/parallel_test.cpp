// A GPT's gradients do not depend on how ranks and batches share its windows.
#include "tests/support/gpt.hpp"

#include <algorithm>

using namespace dist;
using namespace dist::test;

static const GptShape kShape{11, 6, 8, 2, 2};

static Floats whole_gradients(const Tokens& tokens, const Stream& stream) {
  Gpt model = stirred(kShape, stream);
  CrossEntropyLoss loss;
  loss.forward(model.forward(tokens.ids, stream), tokens.all_targets(), stream);
  model.backward(loss.grad(), stream);
  return gradients_of(model, stream);
}

TEST_CASE("ranks and accumulated batches give a GPT the gradients of one whole batch") {
  const Stream stream(Device{});
  constexpr std::size_t kWindows = 2, kParts = 3;
  const Tokens tokens(kWindows * kParts * ranks(), 6, kShape.vocabulary);
  const auto group =
      make_process_group(Backend::ours, world(), Device{}, AllReduceAlgorithm::ring);
  Gpt model = stirred(kShape, stream);
  DistributedDataParallel ddp(model, *group, stream, {.first_bytes = 1, .bytes = 1});
  CrossEntropyLoss loss;
  for (std::size_t i = 0; i < 2 * kParts; ++i) {  // two steps, without an update
    const std::size_t part = i % kParts;
    const Batch batch = tokens.batch((rank() * kParts + part) * kWindows, kWindows,
                                     {.part = part, .parts = kParts, .accumulate = kParts});
    loss.forward(ddp.forward(batch.inputs, stream), batch, stream);
    ddp.backward(loss.grad(), batch.place, stream);
  }
  CHECK(relative(gradients_of(model, stream), whole_gradients(tokens, stream)) < 1e-6);
}

TEST_CASE("32 windows on any number of ranks: the mean over tokens is not that of means") {
  const Stream stream(Device{});
  constexpr std::size_t kWindows = 32;
  const Tokens tokens(kWindows, 6, kShape.vocabulary);
  const Floats whole = whole_gradients(tokens, stream);
  const auto group =
      make_process_group(Backend::ours, world(), Device{}, AllReduceAlgorithm::ring);
  const std::size_t mine = (kWindows + ranks() - 1 - rank()) / ranks();  // 11, 11, 10 on 3
  std::size_t begin = 0;
  for (std::size_t r = 0; r < rank(); ++r) begin += (kWindows + ranks() - 1 - r) / ranks();
  const auto gradients = [&](float weight) {
    Gpt model = stirred(kShape, stream);
    DistributedDataParallel ddp(model, *group, stream);
    CrossEntropyLoss loss;
    const Batch batch = tokens.batch(begin, mine);
    loss.forward(ddp.forward(batch.inputs, stream), batch, stream);
    for (float& each : loss.grad().span()) each *= weight;  // of this rank's mean
    ddp.backward(loss.grad(), batch.place, stream);
    return gradients_of(model, stream);
  };
  const auto weight = static_cast<float>(mine * ranks()) / static_cast<float>(kWindows);
  CHECK(relative(gradients(weight), whole) < 1e-6);
  const bool is_even = kWindows % ranks() == 0;
  CHECK((relative(gradients(1), whole) < 1e-6) == is_even);
}

TEST_CASE("only a GPT's matrices decay, and its parameters are 28 tensors of GPT-2's names",
          "[one process]") {
  const Stream stream(Device{});
  Generator generator(0);
  const Gpt model({.vocabulary = 75}, generator, stream);
  CHECK(model.parameters().size() == 28);
  for (const Parameter& parameter : model.parameters()) {
    CHECK(parameter.decays == (parameter.value.shape().size() == 2));
    const Floats numbers = to_host(stream, parameter.value);
    const bool is_norm = contains(parameter.name, "ln_") && contains(parameter.name, "weight");
    if (!parameter.decays) CHECK(std::ranges::count(numbers, is_norm) == std::ssize(numbers));
  }
  CHECK(model.parameters()[2].name == "h.0.ln_1.weight");
}

TEST_CASE("all gradients of a GPT fit into one bucket, unless its width is above 100",
          "[one process]") {
  const Stream stream(Device{});
  const auto buckets = [&](std::size_t width) {
    Generator generator(0);
    const Gpt model({.vocabulary = 75, .width = width}, generator, stream);
    return plan_buckets(model.parameters(), {}).size();
  };
  CHECK(buckets(64) == 1);
  CHECK(buckets(100) == 1);
  CHECK(buckets(104) == 2);
  CHECK(buckets(256) == 7);
  // advanced/gpt.md
  Generator generator(0);
  const Gpt wide({.vocabulary = 75, .width = 104}, generator, stream);
  const std::size_t first = plan_buckets(wide.parameters(), {})[0].count;
  CHECK(first * 100 / wide.count() == 94);  // and a half: 95 %
}

TEST_CASE("the GPT of the page has 108,992 numbers, and 8.3 MiB of activations",
          "[one process]") {
  const Stream stream(Device{});
  Generator generator(0);
  Gpt model({.vocabulary = 75}, generator, stream);
  CHECK(model.count() == 108992);
  const Tokens tokens(8, 64, 75);
  CrossEntropyLoss loss;
  loss.forward(model.forward(tokens.ids, stream), tokens.all_targets(), stream);
  model.backward(loss.grad(), stream);
  CHECK(close(static_cast<double>(model.activation_bytes()) / 0x1p20, 8.3, 0.01));
}

TEST_CASE("the keys' bias has no gradient but rounding, and Adam moves it all the same",
          "[one process]") {
  const Stream stream(Device{});
  Generator generator(0);
  Gpt model({.vocabulary = 11, .context = 16, .width = 32, .heads = 2, .blocks = 1}, generator,
            stream);
  const auto bias =
      std::ranges::find(model.parameters(), "h.0.attn.c_attn.bias", &Parameter::name);
  REQUIRE(bias != model.parameters().end());
  const auto norm = [&](const Tensor& of, std::size_t third) {
    double sum = 0;
    for (const float x : of.span().subspan(third * 32, 32)) sum += double{x} * double{x};
    return std::sqrt(sum);
  };
  Optimizer adam({.kind = OptimizerKind::adam}, model.parameters(), stream);
  CrossEntropyLoss loss;
  double sgd = 0;  // the most that SGD would have moved it
  for (std::uint64_t step = 0; step < 40; ++step) {
    const Tokens tokens(4, 16, 11, {}, step);
    loss.forward(model.forward(tokens.ids, stream), tokens.all_targets(), stream);
    model.backward(loss.grad(), stream);
    CHECK(norm(bias->grad, 1) < 1e-4 * norm(bias->grad, 2));  // of the queries, keys and values
    sgd += 0.01 * norm(bias->grad, 1);
    adam.step(0.01, stream);
  }
  CHECK(norm(bias->value, 1) > 10'000 * sgd);
}
