// Lesson 5, before: a model trained by one process, without MPI.
//
//   build/bin/single_process
//
// Then compare it with main.cpp: the difference is what data parallelism adds.
//   diff 05_ddp_training/single_process.cpp 05_ddp_training/main.cpp
#include "04_distributed_sampler/data_loader.hpp"
#include "05_ddp_training/checkpoint/checkpoint.hpp"
#include "05_ddp_training/checkpoint/starting_point.hpp"
#include "05_ddp_training/model/lr_schedule.hpp"
#include "05_ddp_training/model/optimizer.hpp"
#include "05_ddp_training/trainer/evaluation.hpp"
#include "05_ddp_training/trainer/memory_use.hpp"
#include "05_ddp_training/trainer/training_data.hpp"
#include "05_ddp_training/trainer/training_log.hpp"
#include "common/fatal.hpp"
#include "common/join.hpp"

#include <fmt/core.h>

#include <optional>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  using namespace dist;

  install_fatal_handler(0);
  TrainingOptions options;
  StartingPoint start;
  TrainingData data;
  DeviceChoice choice;
  RunSettings settings;
  CommandLine command_line("single_process", "Lesson 5, before: one process trains alone.");
  options.declare(command_line, /*writes=*/true);
  start.declare(command_line);
  command_line.check([&] {
    choice = choose_device(options.common.device, 0);
    data.load(options, 1);
    settings = run_settings(command_line.values(), data.fingerprint(options),
                            to_string(choice.device), 1, options.batch_size);
    start.check(options, settings, /*reads=*/true);
  });
  if (const auto exit = parse(command_line, argc, argv)) return *exit;

  const Console console(options.common.json);
  const Stream stream(choice.device, options.common.threads);

  const std::size_t before = memory_use().resident_share(1);

  // One generator for the model and then the data, in this order: PyTorch's numbers depend on
  // it.
  Generator generator(options.common.seed);
  Mlp model(options.layers, generator, stream);
  data.draw(options, generator);
  const auto optimizer = make_optimizer(options.optimizer, model.parameters(), stream);
  const LrSchedule schedule = warmed_up(options.optimizer.lr, options.optimizer.warmup_steps);

  Position position = start.restore(model.parameters(), *optimizer, stream);

  // A sampler for a world of one: every sample is ours, in PyTorch's order.
  DistributedSampler sampler(data.train().size(), 1, 0, options.sampler);
  DataLoader loader(data.train(), options.batch_size, options.loader_drop_last, stream);
  const std::size_t total_steps =
      start.evaluates_only()
          ? position.step
          : options.total_steps(position.step, position.epoch,
                                loader.batches(sampler.indices_after(position.taken).size()),
                                loader.batches(sampler.num_samples()));
  console.line(fmt::format("1 process, model {} on {} ({})", join(options.layers, "-"),
                           to_string(choice.device), choice.reason));
  console.line(fmt::format("{}: {} samples in batches of {}", options.dataset,
                           data.train().size(), options.batch_size));
  for (const std::string& note : start.notes()) console.line(note);

  const auto save = [&] {
    save_checkpoint(options.checkpoint, model.parameters(), *optimizer, position, settings,
                    stream);
  };
  const auto accuracy = [&]() -> std::optional<double> {
    if (data.test() == nullptr) return std::nullopt;
    const std::size_t size = data.test()->size();
    const std::size_t correct =
        count_correct(model, *data.test(), exact_shard(size, 1, 0), stream);
    return static_cast<double>(correct) / static_cast<double>(size);
  };
  CrossEntropyLoss loss;
  TrainingLog log(console, options, position.step, total_steps);
  if (position.step == total_steps) log.tested(accuracy());
  while (position.step < total_steps) {
    const std::size_t epoch = position.epoch;
    sampler.set_epoch(epoch);
    const std::vector<std::size_t> indices = sampler.indices_after(position.taken);
    std::size_t left = loader.batches(indices.size());
    for (const Batch& batch : loader.over(indices)) {
      log.batch_is_here();
      // The step: predict, compare, find out who is to blame, move.
      const Tensor logits = model.forward(batch.inputs, stream);
      loss.forward(logits, batch.targets, stream);
      model.backward(loss.grad(), stream);
      log.gradients_are_here(stream);
      const double lr = schedule.at(log.steps());
      optimizer->step(lr, stream);

      log.step(epoch, loss.value(stream), lr, batch.rows(), {}, stream);
      position.advance(batch.rows(), --left == 0);
      if (log.checkpoint_due()) {
        save();
        log.start_clock();
      }
      if (position.step == total_steps) break;
    }
    log.epoch(epoch, accuracy());
    log.start_clock();
  }
  if (!options.checkpoint.empty() && !start.evaluates_only()) save();

  TrainingMemory memory = count_memory(model, *optimizer);
  memory.before = before;
  memory.peak = memory_use().peak_share(1);
  const bool finite = log.summary({.device = to_string(choice.device),
                                   .backend = "",
                                   .algorithm = "",
                                   .overlap = "",
                                   .memory = memory},
                                  model.parameters(), true, stream);
  return console.verdict(finite, "all parameters are finite", "the parameters diverged");
}
