// Clipping the gradients, as clip_grad_norm_ does.
#include "05_ddp_training/data_parallel/bucket_plan.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "tests/support/lesson05.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("an optimizer that clips refuses to step without a norm", "[one process]") {
  const Stream stream(Device{});
  std::vector<Parameter> parameters{{"0.bias", Tensor({2}, {}), Tensor({2}, {})}};
  Optimizer optimizer({.clip_norm = 1.0}, parameters, stream);
  CHECK(contains(error_of([&] { optimizer.step(0.1, stream); }), "call clip() first"));
}

TEST_CASE("clipping scales all gradients by the same factor, as clip_grad_norm_ does",
          "[gpu][one process]") {
  const std::size_t count = 30001;  // several blocks, and one that is not full
  const Floats gradient = noise(count, 90);
  double squares = 0;
  for (const float g : gradient) squares += static_cast<double>(g) * g;
  const double norm = std::sqrt(squares);
  for (const double limit : {0.25 * norm, 2 * norm}) {
    const auto factor = static_cast<float>(std::min(1.0, limit / (norm + 1e-6)));
    for (const int chunks : {1, 3, 70}) {  // the ranges may be those of any number of ranks
      CAPTURE(limit, chunks);
      const Floats after = everywhere([&](const Stream& stream) {
        const Tensor value = upload(stream, Floats(count, 0.0F));
        const Tensor grad = upload(stream, gradient);
        std::vector<Parameter> parameters = two_parameters(value, grad, 40);
        Optimizer optimizer({.kind = OptimizerKind::sgd, .clip_norm = limit}, parameters,
                            stream);
        optimizer.clip({norm_ranges(parameters, plan_buckets(parameters, {}), chunks), chunks,
                        false, stream});
        optimizer.step(1.0, stream);
        const Floats result = to_host(stream, value);
        CHECK(std::abs(optimizer.report().norm - norm) < 1e-9 * norm);
        return result;
      });
      Floats wanted;
      for (const float g : gradient) wanted.push_back(-(g * factor));
      CHECK(first_difference(after, wanted) == "");
    }
  }
}
