// Lesson 5: checkpoints, and runs resumed from them.
#include "05_ddp_training/checkpoint/checkpoint.hpp"
#include "05_ddp_training/checkpoint/run_settings.hpp"
#include "05_ddp_training/trainer/report.hpp"
#include "tests/support/device_numbers.hpp"
#include "tests/support/files.hpp"
#include "tests/support/mpi_test.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <fstream>
#include <malloc.h>
#include <map>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

const std::vector<std::size_t> kSmallWidths{5, 7, 3};

Mlp make_small_model(std::uint64_t seed, const Stream& stream) {
  Generator generator(seed_of_this_rank(seed));
  return {kSmallWidths, generator, stream};
}

}  // namespace

TEST_CASE("a file from a different model, or not from a run, is refused; the error names it") {
  const Stream stream(Device{});
  const TemporaryFolder folder;
  const std::string path = folder / "run.safetensors";
  Mlp model = make_small_model(1, stream);
  const auto sgd = make_optimizer({.name = "sgd"}, model.parameters(), stream);
  save_checkpoint(path, checkpoint_tensors(model.parameters(), *sgd), *sgd, {}, {}, stream);
  const Checkpoint checkpoint(path);

  const auto refusal = [&](const std::vector<std::size_t>& widths) {
    return error_of([&] { checkpoint.require_parameters(widths); });
  };
  CHECK(refusal(kSmallWidths) == "nothing thrown");
  CHECK(contains(refusal({5, 8, 3}), path + ": 0.weight is (7, 5), but the model's is (8, 5)"));
  CHECK(contains(
      refusal({5, 7, 3, 2}),
      path + ": does not contain 4.weight, but 0.weight, 0.bias, 2.weight and 1 more"));
  CHECK(contains(refusal({5, 7}), "holds 4 parameters, but the model has 2"));
  for (const std::string prefix : {"module.", "_orig_mod.", "module._orig_mod."}) {
    write_safetensors(path,
                      {NamedTensor{prefix + "0.weight", Tensor({7, 5}, Device{})},
                       NamedTensor{prefix + "0.bias", Tensor({7}, Device{})}},
                      {}, stream);
    CHECK_NOTHROW(Checkpoint(path).require_parameters({5, 7}));
    CHECK(Checkpoint(path).prefix() == prefix);
  }

  // The file has no optimizer state, but Adam needs one.
  CHECK(contains(error_of([&] {
                   checkpoint.state("exp_avg.0.weight", {7, 5});
                 }),
                 path + ": does not contain optimizer.exp_avg.0.weight of shape (7, 5)"));

  // The metadata of a run, with one entry changed.
  const auto with = [&](const std::string& key, const std::string& value) {
    std::map<std::string, std::string> run{{"format_version", "1"},
                                           {"step", "3"},
                                           {"epoch", "0"},
                                           {"taken", "99"},
                                           {"optimizer_steps", "3"}};
    run[key] = value;
    write_safetensors(path, {NamedTensor{"0.weight", Tensor({7, 5}, Device{})}}, run, stream);
    return error_of([&] { Checkpoint(path).position(100); });
  };
  CHECK(with("step", "3") == "nothing thrown");
  for (const auto& [key, value, error] : std::vector<std::array<std::string, 3>>{
           {"format_version", "2", "format version 2"},
           {"epoch", "x", "its 'epoch' is 'x'"},
           {"step", "-1", "its 'step' is '-1'"},
           {"step", "18446744073709551615", "not a number up to 2^53"},
           {"taken", "100", "its 'taken' is 100, but an epoch has 100 samples"},
           {"optimizer_steps", "4", "its 'optimizer_steps' is greater than its 3 steps"}}) {
    CHECK(contains(with(key, value), error));
  }
  write_safetensors(path, {NamedTensor{"0.weight", Tensor({7, 5}, Device{})}}, {}, stream);
  CHECK(contains(error_of([&] { Checkpoint(path).position(100); }),
                 path + ": is not a checkpoint of a run"));
}

TEST_CASE("a different run's file is refused; a change that only affects rounding is noted") {
  const RunSettings run{{"--lr", "0.01"},
                        {"--backend", "ours"},
                        {"training data", "abc"},
                        {"ranks", "4"},
                        {"samples per step", "64"}};
  const auto with = [&](const std::map<std::string, std::string>& changes) {
    RunSettings changed = run;
    for (const auto& [name, value] : changes) changed[name] = value;
    return changed;
  };
  const auto refusal = [&](const RunSettings& now, bool any_ranks = false) {
    return error_of([&] { require_same_run(run, now, "FILE", any_ranks); });
  };
  for (const std::string name : {"training data", "samples per step", "--new-flag"}) {
    CHECK(contains(refusal(with({{name, "32"}})), name + ": 32, but FILE is from a run with"));
  }
  CHECK(require_same_run(run, with({{"--backend", "mpi"}}), "FILE", false).size() == 1);
  // With any_ranks, a change of samples per step is an error.
  const RunSettings two_ranks = with({{"ranks", "2"}, {"samples per step", "32"}});
  CHECK(require_same_run(run, two_ranks, "FILE", false).size() == 1);
  CHECK(contains(refusal(two_ranks, /*any_ranks=*/true), "samples per step"));
  CHECK(require_same_run(run, with({{"ranks", "2"}}), "FILE", true).empty());

  // Only flags that determine results are kept.
  const RunSettings kept = run_settings(
      {{"--lr", "1"}, {"--timeout", "3"}, {"training data", "abc"}, {"test data", "x"}}, "cpu",
      4, 64);
  CHECK(kept == RunSettings{{"--lr", "1"},
                            {"--data-parallel", "ddp"},
                            {"--device", "cpu"},
                            {"training data", "abc"},
                            {"ranks", "4"},
                            {"samples per step", "64"}});
  // --shard affects rounding only together with other flags.
  const auto sharded = [](const std::string& accumulate, const std::string& shard) {
    return run_settings(
        {{"--backend", "ours"}, {"--accumulate", accumulate}, {"--shard", shard}}, "cpu", 4,
        64);
  };
  CHECK(sharded("1", "optimizer") == sharded("1", "none"));
  const auto note =
      require_same_run(sharded("3", "optimizer"), sharded("3", "parameters"), "FILE", false);
  REQUIRE(note.size() == 1);
  CHECK(contains(note[0], "--shard: parameters instead of optimizer"));
}

TEST_CASE("the metrics of a resumed run are those of a run that never stopped") {
  const TemporaryFolder folder;
  const std::string path = folder / "steps.jsonl";
  const auto line = [](int step) {
    return fmt::format("{{\"step\":{},\"epoch\":0,\"loss\":0.5,\"lr\":0.1}}\n", step);
  };
  const Console console(/*json=*/false);
  std::ofstream(path) << line(0) << line(1) << line(2) << line(3) << "{\"step\":4,\"lo";
  {
    Report report(console, path, 2, 10);
    CHECK(content_of(path) == line(0) + line(1));
    UpdateState update;
    update.loss = 0.5;
    report.step(0, 0.1, update, "");
    CHECK(content_of(path) == line(0) + line(1) + line(2));  // each line is written immediately
  }
  { Report report(console, folder / "new.jsonl", 2, 10); }  // the earlier run wrote no metrics
  CHECK(content_of(folder / "new.jsonl").empty());
  { Report report(console, path, 0, 10); }
  CHECK(content_of(path).empty());
  CHECK(contains(error_of([&] { Report report(console, folder / "no/folder", 0, 10); }),
                 "no/folder"));
}

TEST_CASE("a long run keeps no more times than a short one, and its figures stay right") {
  const auto allocated = [] { return ::mallinfo2().uordblks + ::mallinfo2().hblkhd; };
  const std::size_t before = allocated();
  Timeline times;
  for (int i = 0; i < 1'000'000; ++i) times.add({.samples = 2, .step = 1.0 * i});
  CHECK(allocated() - before < (2U << 20));
  CHECK(std::abs(times.typical().step - 500'000) < 1000);
  CHECK(std::abs(times.samples_per_second() * 250 - 1) <
        1e-2);  // a step takes 500 s on average
}
