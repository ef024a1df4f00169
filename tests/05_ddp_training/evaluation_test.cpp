// Predictions, and the forward passes of an evaluation.
#include "05_ddp_training/model/evaluation.hpp"

#include "05_ddp_training/model/kernels.hpp"
#include "tests/support/lesson05.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("a prediction is right if the first of the largest logits is the target's",
          "[gpu][one process]") {
  const Floats logits{1,    3,         3,         2,   //
                      1,    3,         3,         2,   //
                      5,    5,         5,         5,   //
                      5,    5,         5,         5,   //
                      -9,   -8,        -7,        -6,  //
                      -9,   -8,        -7,        -6,  //
                      0,    -1,        0,         -1,  //
                      1,    kNaN,      HUGE_VALF, 2,  // NaN is the largest, as for torch.argmax
                      kNaN, HUGE_VALF, kNaN,      2};
  const std::vector<std::int32_t> targets{1, 2, 0, 3, 3, 0, 2, 1, 0};
  const Floats want{1, 0, 1, 0, 1, 0, 0, 1, 1};
  const Floats got = everywhere([&](const Stream& stream) {
    const Tensor hits({targets.size()}, stream.device());
    const Buffer<std::int32_t> labels(targets.size(), stream.device());
    copy_bytes(stream, labels.data(), targets.data(), labels.size_bytes());
    count_hits(stream, targets.size(), 4, upload(stream, logits).data(), labels.data(),
               hits.data());
    return to_host(stream, hits);
  });
  CHECK(got == want);
}

TEST_CASE("an evaluation makes as many forward passes as the rank with the most batches",
          "[one process]") {
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
