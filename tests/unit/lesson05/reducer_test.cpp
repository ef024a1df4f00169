// Lesson 5, what makes DDP fast: which gradients travel together and in which order, and the
// error if one is missing.
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "05_ddp_training/data_parallel/bucket_plan.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/process_group/communication_thread.hpp"
#include "common/check.hpp"
#include "tests/support/lesson05.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

using Buckets = std::vector<std::vector<std::size_t>>;

// A process group that sends nothing and records the calls.
class Recorder : public ProcessGroup {
 public:
  Recorder() : ProcessGroup(world(), /*overlaps=*/false, "recorder") {}
  Tensor allocate(Shape shape) override { return {std::move(shape), Device{}}; }
  std::unique_ptr<Work> start(const Collective& collective, const Stream&) override {
    if (collective.kind == Collective::Kind::all_reduce) {
      reduced.push_back(collective.tensor.numel());
    }
    return std::make_unique<Work>(
        Event(), std::async(std::launch::deferred, [] { return 0.0; }).share());
  }
  void synchronize(const Event&) override {}

  std::vector<std::size_t> reduced;  // the number of elements of each all-reduce, in order
};

}  // namespace

TEST_CASE("the buckets match PyTorch's") {
  const nlohmann::json cases = golden("ddp.json").at("buckets");
  CHECK(cases.size() >= 6);
  constexpr std::size_t kMiB = 1 << 20;
  for (const nlohmann::json& example : cases) {
    std::vector<std::size_t> bytes;
    for (const std::size_t numel : example.at("numel")) bytes.push_back(4 * numel);
    const std::size_t cap = example.at("bucket_cap_mb").get<std::size_t>() * kMiB;
    CHECK(plan_buckets(bytes, kMiB, cap) ==
          example.at("registration_order_limits").get<Buckets>());
    // From the second step on, PyTorch uses the order in which gradients became ready.
    std::reverse(bytes.begin(), bytes.end());
    Buckets reversed = plan_buckets(bytes, kMiB, cap);
    for (auto& bucket : reversed) {
      for (std::size_t& index : bucket) index = bytes.size() - 1 - index;
    }
    CHECK(reversed == example.at("rebuilt").get<Buckets>());
  }
  CHECK(plan_buckets({}, 10, 10).empty());
  const std::vector<std::size_t> sizes{4, 4, 4};
  CHECK(plan_buckets(sizes, 0, 0) == Buckets{{0}, {1}, {2}});
}

TEST_CASE("the default model's gradients are views of three buckets, the last layer first") {
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

TEST_CASE("buckets are sent in order, whichever is full first") {
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

TEST_CASE("a gradient that is missing or arrives twice is named") {
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

TEST_CASE("the gradients of a batch taken in parts are sent only once per step") {
  const Stream stream(Device{});
  const TensorDataset dataset = make_dataset(12, 200);
  Recorder counter;
  Mlp model = make_model(7, stream);
  DistributedDataParallel ddp(model, counter, stream, {.first_bytes = 0, .bytes = 0});
  DataLoader small(dataset, BatchPlan(4, false, /*batches_per_step=*/3), stream);
  CrossEntropyLoss loss;
  for (const Batch& batch : small.over({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})) {
    CHECK(counter.reduced.empty());
    loss.forward(ddp.forward(batch.inputs, stream), batch, stream);
    ddp.backward(loss.grad(), batch.place, stream);
  }
  CHECK(counter.reduced.size() == model.parameters().size());
}

TEST_CASE("every process group averages the numbers that travel along, in double precision") {
  const Stream stream(Device{});
  const int size = world().size();
  for (const Backend backend : {Backend::ours, Backend::mpi}) {
    for (const bool overlap : {false, true}) {
      CAPTURE(to_string(backend), overlap);
      const auto group =
          make_process_group(backend, world(), Device{}, AllReduceAlgorithm::ring, overlap);
      // A float could not represent the rank in 2^40 + rank.
      std::array<double, 2> all{0x1p40 + world().rank(), world().rank() == 0 ? 1.0 : 0.0};
      const Tensor tensor({3}, Device{});
      tensor.span()[2] = 1;
      const auto work = group->all_reduce(tensor, ReduceOp::sum, stream, "", all);
      work->wait(stream);
      CHECK(tensor.span()[2] == static_cast<float>(size));
      CHECK(std::abs(all[0] - (0x1p40 + 0.5 * (size - 1))) <= 0x1p-12);
      CHECK(std::abs(all[1] - 1.0 / size) <= 1e-15);
    }
  }
}

TEST_CASE("the communication thread keeps the order and passes exceptions to the waiter") {
  std::vector<int> order;
  std::thread::id other;
  {
    CommunicationThread thread(Device{});
    const Stream stream(Device{});
    const auto submit = [&](auto job) {
      CommunicationThread::Job task([job] {
        job();
        return 0.0;
      });
      auto work = std::make_unique<Work>(Event(), task.get_future().share());
      thread.submit(std::move(task));
      return work;
    };
    std::vector<std::unique_ptr<Work>> works;
    for (int i = 0; i < 50; ++i) {
      works.push_back(submit([&, i] {
        order.push_back(i);
        other = std::this_thread::get_id();
      }));
    }
    const auto failing = submit([] { throw Error("the network is gone"); });
    CHECK(error_of([&] { failing->wait(stream); }) == "the network is gone");
    for (const auto& work : works) work->wait(stream);
    works.push_back(submit([&] { order.push_back(50); }));  // never waited for
  }
  CHECK(order.size() == 51);
  CHECK(std::is_sorted(order.begin(), order.end()));
  CHECK(other != std::this_thread::get_id());
}
