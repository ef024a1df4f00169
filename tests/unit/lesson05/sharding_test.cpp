// Lesson 5: what training with a part of the model on each rank needs: evaluations with as many
// forward passes on all ranks.
#include "05_ddp_training/model/evaluation.hpp"
#include "tests/support/lesson05.hpp"

#include <cstddef>

using namespace dist;
using namespace dist::test;

TEST_CASE("an evaluation makes as many forward passes as the rank with the most batches") {
  const Stream stream(Device{});
  Mlp model = make_model(100, stream);
  std::size_t passes = 0;
  model.before_layer([&](std::size_t layer) { passes += layer == 0 ? 1 : 0; });
  const TensorDataset dataset = make_dataset(9, 200);
  Evaluation evaluation(dataset, stream);
  const std::size_t correct = evaluation.count_correct(model, {0, 1, 2, 3});
  CHECK(passes == 1);
  CHECK(evaluation.count_correct(model, {0, 1, 2, 3}, 3) == correct);
  CHECK(passes == 1 + 3);
  CHECK(evaluation.count_correct(model, {}, 2) == 0);
  CHECK(passes == 1 + 3 + 2);
}
