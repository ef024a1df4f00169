// Which files a run may be resumed from: those of the same model and the same run.
#include "05_ddp_training/checkpoint/checkpoint.hpp"

#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/optimizer/lr_schedule.hpp"
#include "05_ddp_training/trainer/options.hpp"
#include "tests/support/device_numbers.hpp"
#include "tools/exercises/files.hpp"

#include <array>
#include <map>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

const std::vector<std::size_t> kSmallWidths{5, 7, 3};

static Mlp make_small_model(std::uint64_t seed, const Stream& stream) {
  Generator generator(seed_of_this_rank(seed));
  return {kSmallWidths, generator, stream};
}

TEST_CASE("a file from a different model, or not from a run, is refused; the error names it",
          "[one process]") {
  const Stream stream(Device{});
  const TemporaryFolder folder;
  const std::string path = folder / "run.safetensors";
  Mlp model = make_small_model(1, stream);
  Optimizer sgd({.kind = OptimizerKind::sgd}, model.parameters(), stream);
  save_checkpoint(path, checkpoint_tensors(model.parameters(), sgd), sgd, {}, {}, stream);
  const Checkpoint checkpoint(path);

  const auto refusal = [&](const std::vector<std::size_t>& widths) {
    return error_of([&] { checkpoint.require_parameters(parameter_shapes(widths)); });
  };
  CHECK(refusal(kSmallWidths) == "nothing thrown");
  CHECK(contains(refusal({5, 8, 3}), path + ": 0.weight is (7, 5), but the model's is (8, 5)"));
  CHECK(contains(
      refusal({5, 7, 3, 2}),
      path + ": does not contain 4.weight, but 0.weight, 0.bias, 2.weight and 1 more"));
  CHECK(contains(refusal({5, 7}), "holds 4 parameters, but the model has 2, and no 2."));
  CHECK(widths_of(checkpoint.parameters()) == kSmallWidths);
  CHECK(widths_of(parameter_shapes({784, 10})) == std::vector<std::size_t>{784, 10});
  CHECK(widths_of(std::vector<ParameterShape>{{"0.weight", {3, 5}}, {"2.weight", {2, 4}}})
            .empty());
  CHECK(widths_of(std::vector<ParameterShape>{{"embedding.weight", {3, 5}}}).empty());
  for (const std::string prefix : {"module.", "_orig_mod.", "module._orig_mod."}) {
    write_safetensors(path,
                      {NamedTensor{prefix + "0.weight", Tensor({7, 5}, Device{})},
                       NamedTensor{prefix + "0.bias", Tensor({7}, Device{})}},
                      {}, stream);
    CHECK_NOTHROW(Checkpoint(path).require_parameters(parameter_shapes({5, 7})));
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

TEST_CASE("a different run's file is refused; a change that only affects rounding is noted",
          "[one process]") {
  const auto settings = [](std::vector<std::string> words, std::size_t ranks = 4,
                           std::size_t samples_per_step = 64) {
    Options options;
    CommonOptions common;
    CommandLine flags("test", "a training program");
    options.declare(flags, common, /*ranks=*/4, /*writes=*/false);
    bool added = false;
    flags.flag("--new-flag", added, "declared without an effect");
    words.insert(words.begin(), "test");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    REQUIRE_FALSE(flags.parse(static_cast<int>(argv.size()), argv.data()));
    return run_settings(flags.values(), "cpu", ranks, samples_per_step);
  };
  const Stream stream(Device{});
  const TemporaryFolder folder;
  const std::string path = folder / "run.safetensors";
  Mlp model = make_small_model(1, stream);
  Optimizer sgd({.kind = OptimizerKind::sgd}, model.parameters(), stream);
  const auto saved = [&](const RunSettings& run) {
    save_checkpoint(path, {}, sgd, {}, run, stream);
    return Checkpoint(path);
  };
  const Checkpoint file = saved(settings({}));
  const auto notes = [&](const RunSettings& now, bool any_ranks = false) {
    return file.require_same_run(now, any_ranks).size();
  };
  const auto refusal = [&](const RunSettings& now, bool any_ranks = false) {
    return error_of([&] { file.require_same_run(now, any_ranks); });
  };
  using Words = std::vector<std::string>;
  for (const Words& words : {Words{"--epochs", "9"}, Words{"--metrics", "x"}, Words{"--json"},
                             Words{"--pretend-link", "1"}, Words{"--global-batch", "256"}}) {
    CHECK(notes(settings(words)) == 0);
  }
  for (const Words& words : {Words{"--algorithm", "naive"}, Words{"--bucket-cap-mb", "3"},
                             Words{"--threads", "2"}, Words{"--no-graph"}}) {
    CHECK(notes(settings(words)) == 1);
  }
  CHECK(contains(refusal(settings({"--new-flag"})),
                 "--new-flag: yes, but " + path + " is from a run with no"));
  // A file from before a flag was declared is from a run with the flag's default, which may
  // depend on another flag.
  for (const std::string flag : {"--new-flag", "--weight-decay"}) {
    RunSettings old = settings({"--optimizer", "adamw"});
    old.erase(flag);
    CHECK(saved(old).require_same_run(settings({"--optimizer", "adamw"}), false).empty());
    CHECK(contains(
        error_of([&] {
          saved(old).require_same_run(settings({"--optimizer", "adamw", "--new-flag"}), false);
        }),
        "--new-flag: yes, but " + path + " is from a run with no"));
  }
  // With any_ranks, a change of samples per step is an error.
  CHECK(notes(settings({}, 2, 32)) == 1);
  CHECK(contains(refusal(settings({}, 2, 32), /*any_ranks=*/true), "samples per step"));
  CHECK(notes(settings({}, 2), /*any_ranks=*/true) == 0);

  // A schedule's length stands in the file: another would have had other rates from the start.
  const auto with_cosine = [&](std::size_t steps) {
    RunSettings all = settings({});
    const CosineSchedule cosine{.peak = 1, .floor = 0, .warmup_steps = 2, .total_steps = steps};
    all["schedule"].text = cosine.name();
    return all;
  };
  CHECK(saved(with_cosine(50)).require_same_run(with_cosine(50), false).empty());
  CHECK(contains(
      error_of([&] { saved(with_cosine(50)).require_same_run(with_cosine(60), false); }),
      "schedule: a cosine of 60 steps, but " + path + " is from a run with a cosine of 50"));

  // --shard affects rounding only together with other flags.
  CHECK(notes(settings({"--shard", "optimizer"})) == 0);
  const auto note =
      saved(settings({"--accumulate", "3", "--shard", "optimizer"}))
          .require_same_run(settings({"--accumulate", "3", "--shard", "parameters"}), false);
  REQUIRE(note.size() == 1);
  CHECK(contains(note[0], "--shard: parameters instead of optimizer"));
}
