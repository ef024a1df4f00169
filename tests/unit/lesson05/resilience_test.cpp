// Lesson 5: how a run is protected. (Whole runs that a signal, a flipped bit or numbers that
// are not finite end are in faults/.)
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/trainer/guards.hpp"
#include "tests/support/device_numbers.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/mpi_test.hpp"

#include <fmt/format.h>

#include <csignal>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace dist;
using dist::test::all_ranks;
using dist::test::devices;
using dist::test::error_of;
using dist::test::Floats;
using dist::test::noise;
using dist::test::world;

Mlp make_model(const Stream& stream) {
  Generator generator(100);
  return {{5, 70, 3}, generator, stream};
}

void fill_gradients(Mlp& model, const Stream& stream) {
  std::uint64_t seed = 1;
  for (const Parameter& parameter : model.parameters()) {
    const Floats numbers = noise(parameter.grad.numel(), seed++);
    copy_bytes(stream, parameter.grad.data(), numbers.data(), parameter.grad.size_bytes());
    stream.synchronize();
  }
}

void set(const Tensor& tensor, std::size_t index, float value, const Stream& stream) {
  copy_bytes(stream, tensor.data() + index, &value, sizeof value);
  stream.synchronize();
}

// Takes single steps. Returns the name of the parameter that made the optimizer skip the step,
// or "".
class Asked {
 public:
  Asked(Mlp& model, const Stream& stream)
      : model_(model),
        stream_(stream),
        optimizer_(make_optimizer({.name = "sgd"}, model.parameters(), stream)) {}

  std::string step() {
    const Floats before = to_host(stream_, model_.parameters()[0].value);
    optimizer_->step(0.1, stream_);
    stream_.synchronize();
    const bool moved = to_host(stream_, model_.parameters()[0].value) != before;
    CHECK(moved == report().is_open());
    if (moved) return "";
    return model_.parameters()[static_cast<std::size_t>(report().culprit)].name;
  }
  const UpdateState& report() const { return optimizer_->report(); }
  std::size_t steps() const { return optimizer_->steps(stream_); }

 private:
  Mlp& model_;
  const Stream& stream_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace

TEST_CASE("a non-finite gradient on one rank is named, and all ranks skip the step") {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  for (const Device device : devices()) {
    const Stream stream(device);
    Mlp model = make_model(stream);
    Asked optimizer(model, stream);
    const auto group =
        make_process_group(Backend::ours, world(), device, AllReduceAlgorithm::automatic);
    std::size_t taken = 0;
    for (const float number : bad) {
      for (const Parameter& parameter : model.parameters()) {
        for (const std::size_t index : {std::size_t{0}, parameter.grad.numel() - 1}) {
          CAPTURE(to_string(device), number, parameter.name, index);
          fill_gradients(model, stream);
          if (world().rank() == world().size() - 1) set(parameter.grad, index, number, stream);
          for (const Parameter& each : model.parameters()) {
            group->all_reduce(each.grad, ReduceOp::avg, stream)->wait(stream);
          }
          CHECK(optimizer.step() == parameter.name);
          CHECK(optimizer.steps() == taken);

          fill_gradients(model, stream);  // the next step is taken
          CHECK(optimizer.step().empty());
          CHECK(optimizer.steps() == ++taken);
          CHECK(optimizer.report().skipped_in_a_row == 0);
        }
      }
    }
  }
}

TEST_CASE("large and tiny numbers do not cause a step to be skipped") {
  const Stream stream(Device{});
  Mlp model = make_model(stream);
  Asked optimizer(model, stream);
  fill_gradients(model, stream);
  for (const float number :
       {std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min(), 0.0F}) {
    for (std::size_t i = 0; i < 5; ++i) {
      set(model.parameters()[0].grad, i, number, stream);
    }
    CHECK(optimizer.step().empty());
  }
}

TEST_CASE("after ten skipped steps in a row, no more steps are taken") {
  const Stream stream(Device{});
  Mlp model = make_model(stream);
  Asked optimizer(model, stream);
  const auto skip = [&] {
    set(model.parameters()[2].grad, 3, std::numeric_limits<float>::quiet_NaN(), stream);
    CHECK(optimizer.step() == "2.weight");
  };
  for (int i = 0; i < 9; ++i) skip();
  fill_gradients(model, stream);
  CHECK(optimizer.step().empty());  // the count starts again at 0
  for (int i = 0; i < 10; ++i) skip();
  CHECK(optimizer.report().skipped_in_a_row == UpdateState::kMostSkippedInARow);
  // The host learns of a skipped step only after it has queued later ones, so the device must
  // skip those as well.
  fill_gradients(model, stream);
  CHECK(!optimizer.step().empty());
}

TEST_CASE("a request to stop is held until somebody asks for it") {
  hold_stop_signals();
  for (const int signal : {SIGUSR1, SIGTERM}) {
    CHECK(!asked_to_stop());
    std::raise(signal), std::raise(signal);  // a second signal has no further effect
    CHECK(asked_to_stop());
    // Discard the signal, so that it does not end this program.
    sigset_t pending;
    int taken_back = 0;
    sigemptyset(&pending);
    sigaddset(&pending, signal);
    CHECK(sigwait(&pending, &taken_back) == 0);
  }
  release_stop_signals();
}

TEST_CASE("settings that differ between ranks are named with their values") {
  const auto answer = [](std::vector<CommandLine::Value> values, const std::string& data) {
    values.push_back({"training data", data});
    return error_of([&] { require_agreement(world(), values); });
  };
  const auto last_rank = [](const std::string& same, const std::string& other) {
    return world().rank() == world().size() - 1 ? other : same;
  };
  const auto expected = [](const std::string& words) {
    if (world().size() == 1) return std::string("nothing thrown");
    return world().rank() == 0
               ? words
               : words.substr(0, words.find(':')) + ": not the same on all ranks";
  };
  const int last = world().size() - 1;
  CHECK(answer({{"--lr", "1"}, {"--seed", "0"}}, "abc") == "nothing thrown");
  CHECK(answer({{"--lr", "1"}, {"--seed", last_rank("0", "5")}}, "abc") ==
        expected(fmt::format("--seed: 0 on rank 0, but 5 on rank {}", last)));
  CHECK(answer({{"--lr", last_rank("1", "2")}, {"--seed", last_rank("0", "5")}}, "abc") ==
        expected(fmt::format("--lr: 1 on rank 0, but 2 on rank {}", last)));
  CHECK(answer({{"--init", last_rank("", "x")}}, "abc") ==
        expected(fmt::format("--init: nothing on rank 0, but x on rank {}", last)));
  CHECK(answer({{"--lr", "1"}}, last_rank("abc", "abd")) ==
        expected(fmt::format("training data: abc on rank 0, but abd on rank {}", last)));
  // Ranks may find the same data in different folders.
  CHECK(answer({{"--data", last_rank("/a", "/b")}}, "abc") == "nothing thrown");
}
