// What makes DDP fast: when and in which order gradients are sent, and the error if one is
// missing.
#include "05_ddp_training/data_parallel/reducer.hpp"

#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "tests/support/lesson05.hpp"
#include "tests/support/recorder.hpp"

#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("the default model's gradients are views of three buckets, the last layer first",
          "[one process]") {
  const Stream stream(Device{});
  Generator generator(0);
  Mlp model({784, 512, 512, 512, 10}, generator, stream);
  Recorder group;
  const DistributedDataParallel ddp(model, group, stream);
  CHECK(ddp.buckets().size() == 3);
  CHECK(ddp.buckets()[0].names ==
        std::vector<std::string>{"6.bias", "6.weight", "4.bias", "4.weight"});
  const float* next = model.parameters().back().grad.data();
  for (std::size_t i = model.parameters().size(); i-- > 4;) {
    const Parameter& parameter = model.parameters()[i];
    CHECK(parameter.grad.data() == next);
    next += parameter.value.numel();
  }
}

TEST_CASE("buckets are sent in order, whichever is full first", "[one process]") {
  const Stream stream(Device{});
  Mlp model = make_model(7, stream);
  Recorder group;
  Reducer reducer(model.parameters(), plan_buckets(model.parameters(), BucketCaps{0, 0}),
                  group);
  const std::size_t parameters = model.parameters().size();
  CHECK(reducer.plans().size() == parameters);
  for (std::size_t i = 0; i < parameters;
       ++i) {  // from the first layer on, the reverse of backward's order
    reducer.mark_ready(i, stream);
    CHECK(group.reduced.empty() == (i + 1 < parameters));
  }
  reducer.finalize(stream);
  std::vector<std::size_t> wanted;
  for (std::size_t i = parameters; i-- > 0;) {
    wanted.push_back(model.parameters()[i].value.numel());
  }
  CHECK(group.reduced == wanted);
}

TEST_CASE("a gradient that is missing or arrives twice is named", "[one process]") {
  const Stream stream(Device{});
  Mlp model = make_model(7, stream);
  Recorder group;
  Reducer reducer(model.parameters(), plan_buckets(model.parameters(), {}), group);
  for (const std::size_t index : {5, 4, 1, 0}) reducer.mark_ready(index, stream);
  CHECK(error_of([&] { reducer.mark_ready(4, stream); }) ==
        "the gradient of 4.weight was marked ready twice");
  CHECK(error_of([&] { reducer.finalize(stream); }).find("the gradient of 2.weight never") ==
        0);
}
