// Lesson 5: N processes train one model.
//
//   mpirun -np 4 build/bin/ddp_training
//   mpirun -np 4 build/bin/ddp_training --dataset idx --data FOLDER      MNIST's own files
//
// Read single_process.cpp first; this file is the same program with messages added. The
// numbered comments stand where it differs.
#include "04_distributed_sampler/data_loader.hpp"
#include "05_ddp_training/advanced/deterministic/deterministic_data_parallel.hpp"
#include "05_ddp_training/advanced/deterministic/tree_sum.hpp"
#include "05_ddp_training/advanced/deterministic/virtual_ranks.hpp"
#include "05_ddp_training/advanced/explain/explain.hpp"
#include "05_ddp_training/advanced/guards/agreement.hpp"
#include "05_ddp_training/advanced/guards/guards.hpp"
#include "05_ddp_training/advanced/guards/replica_check.hpp"
#include "05_ddp_training/checkpoint/checkpoint.hpp"
#include "05_ddp_training/checkpoint/starting_point.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/model/optimizer.hpp"
#include "05_ddp_training/process_group/overlap_choice.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "05_ddp_training/trainer/across_ranks.hpp"
#include "05_ddp_training/trainer/memory_use.hpp"
#include "05_ddp_training/trainer/micro_batches.hpp"
#include "05_ddp_training/trainer/parallel_options.hpp"
#include "05_ddp_training/trainer/step_traffic.hpp"
#include "05_ddp_training/trainer/training_data.hpp"
#include "05_ddp_training/trainer/training_log.hpp"
#include "common/join.hpp"
#include "common/mpi_environment.hpp"
#include "common/nccl_communicator.hpp"

#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  using namespace dist;

  // [1] Every process runs this program; from here on each knows its rank.
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();
  const bool root = comm.rank() == 0;

  TrainingOptions options;
  ParallelOptions parallel;
  StartingPoint start;
  TrainingData data;
  DeviceChoice choice;
  RunSettings settings;
  CommandLine command_line("ddp_training", "Lesson 5: N processes train one model.");
  options.declare(command_line, /*writes=*/root);
  parallel.declare(command_line, options, comm);
  start.declare(command_line);
  const auto ranks = static_cast<std::size_t>(comm.size());
  command_line.check([&] {
    choice = choose_device(options.common.device, comm.local_rank());
    data.load(options, comm.size(), parallel.virtual_ranks(comm).per_process());
    settings =
        run_settings(command_line.values(), data.fingerprint(options), to_string(choice.device),
                     ranks, ranks * options.batch_size * parallel.accumulate);
    start.check(options, settings, /*reads=*/root, /*any_ranks=*/parallel.deterministic);
  });
  BackendChoice backend;
  command_line.check_together([&] {
    // [2] One run, or N that only look like it? And who carries messages between the replicas:
    // ours, MPI or NCCL.
    require_agreement(comm, command_line.values(), settings["training data"]);
    backend = choose_backend(parallel.backend, comm, choice.device);
  });
  if (const auto exit = parse(command_line, comm, argc, argv)) return *exit;

  const Console console(options.common.json, root);
  const Stream stream(choice.device, options.common.threads);
  const OverlapChoice overlap =
      choose_overlap(parallel.overlap, backend.backend, comm, options.common.threads);
  const auto group =
      make_process_group(backend.backend, comm, choice.device,
                         kAllReduceAlgorithms.at(parallel.algorithm), overlap.overlap);
  if (parallel.explain) return explain(comm, console, *group, stream, choice.reason);

  const std::size_t before = memory_use().resident_share(comm.local_size());
  Generator generator(options.common.seed);
  Mlp model(options.layers, generator, stream);
  data.draw(options, generator);
  const auto optimizer = make_optimizer(options.optimizer, model.parameters(), stream);
  const LrSchedule schedule = parallel.lr_schedule(options.optimizer, comm);

  // [3] Rank 0's parameters, drawn or read from its file, become everybody's (lesson 2), and
  // gradients become windows on messages.
  Position position = start.restore(model.parameters(), *optimizer, stream);
  if (start.resumed()) share_progress(comm, position, *optimizer, stream);
  const VirtualRanks virtual_ranks = parallel.virtual_ranks(comm);
  const auto ddp =
      parallel.deterministic
          ? make_deterministic_data_parallel(model, *group, stream, comm, virtual_ranks)
          : make_data_parallel(parallel.data_parallel, model, *group, stream,
                               parallel.bucket_caps());

  // [4] This rank's share of every epoch (lesson 4); or those of several virtual ranks, each
  // with its part of the batch.
  const std::size_t played = virtual_ranks.per_process();
  VirtualSampler sampler(data.train().size(), virtual_ranks, options.batch_size / played,
                         options.sampler);
  DataLoader loader(data.train(), options.batch_size / played, options.loader_drop_last, stream,
                    played);
  const auto steps_over = [&](std::size_t samples) {
    const std::size_t batches_per_step = parallel.accumulate * played;
    return (loader.batches(samples) + batches_per_step - 1) / batches_per_step;
  };
  const std::size_t total_steps =
      start.evaluates_only()
          ? position.step
          : options.total_steps(position.step, position.epoch,
                                steps_over(sampler.indices_after(position.taken).size()),
                                steps_over(sampler.num_samples()));
  console.line(fmt::format("{} rank{}, model {} on {} ({})", ranks, ranks == 1 ? "" : "s",
                           join(options.layers, "-"), to_string(choice.device), choice.reason));
  console.line(parallel.deterministic
                   ? cost_of_determinism(virtual_ranks, options.batch_size / played, model)
                   : fmt::format("gradients by {}: {}", group->description(), backend.reason));
  console.line(fmt::format("{}: {} samples, {} per rank{}, in batches of {} x {} = {}",
                           options.dataset, data.train().size(), sampler.num_samples(),
                           sampler.total_size() > data.train().size() ? " (padded)" : "", ranks,
                           options.batch_size, ranks * options.batch_size));
  for (const std::string& note : start.notes()) console.line(note);

  const auto save = [&] {
    if (!root) return;  // all replicas are equal, and two writers would tear one file
    save_checkpoint(options.checkpoint, model.parameters(), *optimizer, position, settings,
                    stream);
  };
  const auto accuracy = [&]() -> std::optional<double> {
    if (data.test() == nullptr) return std::nullopt;
    return test_accuracy(comm, virtual_ranks, model, *data.test(), stream);
  };
  CrossEntropyLoss loss;
  StepTraffic traffic;
  Guards guards(comm, model.parameters(),
                {.check_replicas = parallel.check_replicas,
                 .stop_on_signal = !options.checkpoint.empty()},
                stream);
  TrainingLog log(console, options, position.step, total_steps);
  if (position.step == total_steps) log.tested(accuracy());
  while (position.step < total_steps && !guards.must_stop()) {
    const std::size_t epoch = position.epoch;
    sampler.set_epoch(epoch);
    const std::vector<std::size_t> indices = sampler.indices_after(position.taken);
    MicroBatches micro_batches(loader.batches(indices.size()), parallel.accumulate, played);
    for (const Batch& batch : loader.over(indices)) {
      log.batch_is_here();
      const Tensor logits = ddp->forward(batch.inputs, stream);
      micro_batches.begin(batch.rows());
      loss.forward(logits, batch.targets, stream, micro_batches.parts());
      if (!micro_batches.is_last()) {
        const auto local = ddp->no_sync();
        ddp->backward(loss.grad(), stream);
        micro_batches.add_loss(loss.value(stream));
        log.more_is_wanted();
        continue;
      }
      // [5] Backward as before, and each bucket's all-reduce (lesson 3) as soon as it is full:
      // every rank's gradients are now the mean over all ranks, so that the same optimizer step
      // keeps the replicas equal.
      traffic.during(comm, [&] { ddp->backward(loss.grad(), stream); });
      log.gradients_are_here(stream);
      const CommunicationTimes times = ddp->communication_times(stream);
      const double lr = schedule.at(log.steps());
      const bool finite = guards.may_step(stream);
      if (finite) optimizer->step(lr, stream);

      // [6] Rank 0's own loss would be that of rank 0's samples.
      micro_batches.add_loss(loss.value(stream));
      StepOutcome outcome =
          over_all_ranks(comm, micro_batches.mean_loss(), guards.asked_to_stop());
      if (parallel.deterministic) outcome.mean_loss = tree_mean(comm, micro_batches.losses());
      log.step(
          epoch, outcome.mean_loss, lr, micro_batches.rows() * ranks,
          {.communication = times.total, .exposed = times.exposed, .hideable = times.hideable},
          stream, finite ? "" : guards.last_not_finite());
      position.advance(micro_batches.rows() * ranks, micro_batches.epoch_is_done());
      guards.after_step(position.step, outcome.stop, stream);
      if (log.checkpoint_due() && guards.problem().empty()) {
        save();
        log.start_clock();
      }
      if (position.step == total_steps || guards.must_stop()) break;
    }
    if (guards.must_stop()) break;
    log.epoch(epoch, accuracy());
    log.start_clock();
  }
  if (!guards.problem().empty()) return console.verdict(false, "", guards.problem());
  if (!options.checkpoint.empty() && !start.evaluates_only()) save();
  if (position.step < total_steps) {
    log.stopped(options.checkpoint);
    return kStoppedOnRequest;
  }

  TrainingMemory memory = count_memory(model, *optimizer);
  memory.before = largest_over_ranks(comm, before);
  memory.peak = largest_over_ranks(comm, memory_use().peak_share(comm.local_size()));

  // [7] N models or one? Every parameter of every rank is compared.
  const std::string difference = first_difference(comm, model.parameters(), stream);
  const std::string algorithm = parallel.deterministic             ? "fixed-tree"
                                : backend.backend == Backend::ours ? parallel.algorithm
                                                                   : "";
  const bool finite = log.summary(
      {.device = to_string(choice.device),
       .backend = to_string(backend.backend),
       .algorithm = algorithm,
       .ranks = comm.size(),
       .bytes_sent = traffic.bytes_per_rank(),
       .least_bytes = least_bytes_per_rank(model.parameters(), comm.size()),
       .overlap = parallel.deterministic ? "the tree is added after backward" : overlap.reason,
       .memory = memory},
      model.parameters(), difference.empty(), stream);
  return console.verdict(comm.all_agree(finite && difference.empty()),
                         "the same parameters, to the bit, on every rank",
                         difference.empty() ? "the parameters diverged"
                                            : "the replicas differ, first in " + difference);
}
