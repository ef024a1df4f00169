// A text becomes windows, and a model's tokens a text.
#include "05_ddp_training/advanced/gpt/text_dataset.hpp"
#include "05_ddp_training/advanced/gpt/write.hpp"
#include "tests/support/gpt.hpp"

#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("a window holds each next character as a target", "[one process]") {
  const Vocabulary vocabulary("banana\xe4");
  REQUIRE(vocabulary.size() == 4);
  CHECK(vocabulary.character(0) == 'a');
  CHECK(vocabulary.token('\xe4') == 3);  // bytes are not negative
  CHECK_THROWS_AS(vocabulary.token('c'), Error);
  const TextDataset data("banana", vocabulary, 3, 2);
  REQUIRE(data.size() == 2);
  CHECK(data.classes() == 4);
  std::vector<float> row(3);
  std::vector<std::int32_t> targets(3);
  data.get(1, row, targets);
  CHECK(row == std::vector<float>{2, 0, 2});
  CHECK(targets == std::vector<std::int32_t>{0, 2, 0});
  CHECK(TextDataset("banana", vocabulary, 3, 1).size() == 3);
  CHECK(TextDataset("banana", vocabulary, 5, 1).size() == 1);
  CHECK_THROWS_AS(TextDataset("banana", vocabulary, 6, 1), Error);
  CHECK_THROWS_AS(TextDataset("", vocabulary, 1, 1), Error);
}

TEST_CASE("a model writes what it expects, from the end of the text", "[gpu][one process]") {
  // Expects the token after the last one; with `doubt`, one of its neighbours, too.
  class Counting : public Module {
   public:
    Tensor forward(const Tensor& ids, const Stream& stream) override {
      Floats logits;
      for (const float id : to_host(stream, ids)) {
        for (int c = 0; c < 3; ++c) logits.push_back(c == static_cast<int>(id + 1) % 3 ? 4 : 0);
      }
      lengths.push_back(ids.dim(1));
      return upload(stream, logits, {ids.dim(1), 3});
    }
    using Module::backward;
    void backward(const Tensor&, const Stream&, Accumulate, const GradReadyHook&) override {}
    std::vector<std::size_t> lengths;
  };
  for (const Device device : devices()) {
    const Stream stream(device);
    Counting model;
    const Vocabulary vocabulary("abc");
    Generator generator(0);
    CHECK(write(model, vocabulary, 4, "ab", 5, /*temperature=*/0.01, generator, stream) ==
          "abcabca");
    CHECK(model.lengths == std::vector<std::size_t>{2, 3, 4, 4, 4});
    // At temperature 1, the others have 2 exp(0) / (2 + exp(4)) = 3.5 % of the chances.
    const std::string text =
        write(model, vocabulary, 4, "a", 3000, /*temperature=*/1, generator, stream);
    std::size_t others = 0;
    for (std::size_t i = 1; i < text.size(); ++i) {
      others += (text[i - 1] - 'a' + 1) % 3 != text[i] - 'a';
    }
    CHECK(others > 60);
    CHECK(others < 160);
  }
}
