// The GPT's gradients are the slopes of its loss, in every shape and on every device.
#include "05_ddp_training/advanced/gpt/exp.hpp"
#include "05_ddp_training/model/gradient_check.hpp"
#include "common/check.hpp"
#include "tests/support/gpt.hpp"

#include <cmath>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

struct Example {
  GptShape shape;  // vocabulary, context, width, heads, blocks
  std::size_t length;
};
// One to four heads, sizes of heads that are compiled in (16, 32, 64) and others, a single
// token, sequences shorter than the context, one block and several.
const std::vector<Example> kExamples{{{11, 5, 6, 1, 1}, 5},  {{11, 5, 6, 2, 2}, 5},
                                     {{7, 9, 15, 3, 1}, 4},  {{3, 1, 4, 4, 1}, 1},
                                     {{13, 6, 64, 4, 1}, 6}, {{13, 20, 64, 2, 3}, 19},
                                     {{5, 8, 64, 1, 1}, 8}};

}  // namespace

TEST_CASE("the GPT's gradients are the slopes of its loss", "[one process]") {
  const Stream stream(Device{});
  for (const auto& [shape, length] : kExamples) {
    CAPTURE(shape.width, shape.heads, shape.blocks, length);
    Gpt model = stirred(shape, stream);
    const Tokens tokens(4, length, shape.vocabulary);
    CHECK(wrong_gradient(model, tokens.ids, tokens.all_targets()) == "");
  }
}

TEST_CASE("every device computes the CPU's loss and gradients of a GPT, with several threads",
          "[gpu][one process]") {
  for (const auto& [shape, length] : kExamples) {
    CAPTURE(shape.width, shape.heads, shape.blocks, length);
    const auto compute = [&, &its_shape = shape, &its_length = length](const Stream& stream) {
      Gpt model = stirred(its_shape, stream);
      const Tokens tokens(5, its_length, its_shape.vocabulary, stream.device());
      CrossEntropyLoss loss;
      loss.forward(model.forward(tokens.ids, stream), tokens.all_targets(), stream);
      model.backward(loss.grad(), stream);
      model.backward(loss.grad(), stream, Accumulate::yes);
      Floats all = gradients_of(model, stream);
      all.push_back(static_cast<float>(loss.value(stream)));
      return all;
    };
    const Floats on_cpu = compute(Stream(Device{}));
    CHECK(relative(compute(Stream(Device{}, /*threads=*/3)), on_cpu) < 1e-6);
    for (const Device device : devices())
      CHECK(relative(compute(Stream(device)), on_cpu) < 1e-5);
  }
}

TEST_CASE("a shorter sequence leaves nothing of a longer one behind", "[one process]") {
  const Stream stream(Device{});
  const GptShape shape{11, 8, 8, 2, 2};
  Gpt used = stirred(shape, stream), fresh = stirred(shape, stream);
  CrossEntropyLoss loss;
  const auto run = [&](Gpt& model, std::size_t length) {
    const Tokens tokens(3, length, shape.vocabulary);
    loss.forward(model.forward(tokens.ids, stream), tokens.all_targets(), stream);
    model.backward(loss.grad(), stream);
  };
  run(used, 8);
  const std::size_t bytes = used.activation_bytes();
  run(used, 4);
  run(fresh, 4);
  CHECK(gradients_of(used, stream) == gradients_of(fresh, stream));
  CHECK(used.activation_bytes() == bytes);
}

TEST_CASE("a GPT refuses heads that do not divide its width, and sequences beyond its context",
          "[one process]") {
  const Stream stream(Device{});
  CHECK_THROWS_AS(stirred({5, 4, 10, 3, 1}, stream), Error);
  CHECK_THROWS_AS(stirred({5, 4, 129, 1, 1}, stream), Error);
  Gpt model = stirred({5, 4, 6, 1, 1}, stream);
  CHECK_THROWS_AS(model.forward(Tensor({1, 5}, Device{}), stream), Error);
}

TEST_CASE("the feed-forward layer has PyTorch's GELU between its products", "[one process]") {
  // From torch.nn.functional.gelu(x, approximate="tanh"), in float64.
  const Floats x{-3, -1, -0.1F, 0.5, 2, 9};
  const std::vector<double> gelu{-0.00363739208, -0.158808009, -0.046017249,
                                 0.34571401,     1.95459769,   9};
  struct Alone : Module {
    gpt::FeedForward layer{*this, "mlp", 1, Device{}};
    gpt::TensorStack memory;
    Tensor forward(const Tensor& input, const Stream& stream) override {
      return layer.forward(input, {stream, parameters(), memory, /*length=*/1});
    }
    using Module::backward;
    void backward(const Tensor&, const Stream&, Accumulate, const GradReadyHook&) override {}
  } model;
  const Stream stream(Device{});
  model.parameters()[0].value.span()[0] = 1;  // of four hidden numbers, the first is x
  model.parameters()[2].value.span()[0] = 1;
  const Floats y = to_host(stream, model.forward(upload(stream, x, {x.size(), 1}), stream));
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(close(double{y[i]}, gelu[i], 3e-7));
}

TEST_CASE("the GPT's exp is that of the mathematical library, and keeps NaN", "[one process]") {
  double worst = 0;
  for (float x = -87.0F; x < 88.0F; x += 0.00137F) {
    const double right = std::exp(double{x});
    worst = std::max(worst, std::abs(double{gpt::exp_of(x)} - right) / right);
  }
  CHECK(worst < 1e-7);
  CHECK(gpt::exp_of(-1e30F) == gpt::exp_of(-87.0F));
  CHECK(gpt::exp_of(INFINITY) == gpt::exp_of(88.0F));
  CHECK(std::isnan(gpt::exp_of(kNaN)));
}
