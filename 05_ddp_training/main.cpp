// Lesson 5: N processes train one model.
//
//   mpirun -np 4 build/bin/ddp_training
//   mpirun -np 4 build/bin/ddp_training --dataset idx --data FOLDER      MNIST's own files
//
// Read single_process.cpp first; this file is the same program with messages added. The
// numbered comments stand where it differs.
#include "04_distributed_sampler/data_loader.hpp"
#include "05_ddp_training/across_ranks.hpp"
#include "05_ddp_training/checkpoint.hpp"
#include "05_ddp_training/distributed_data_parallel.hpp"
#include "05_ddp_training/micro_batches.hpp"
#include "05_ddp_training/optimizer.hpp"
#include "05_ddp_training/parallel_options.hpp"
#include "05_ddp_training/process_group/overlap_choice.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "05_ddp_training/replica_check.hpp"
#include "05_ddp_training/training_data.hpp"
#include "05_ddp_training/training_log.hpp"
#include "common/mpi_environment.hpp"
#include "common/nccl_communicator.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

int main(int argc, char** argv) {
  using namespace dist;

  // [1] Every process runs this program; from here on each knows its rank.
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();
  const bool root = comm.rank() == 0;

  TrainingOptions options;
  ParallelOptions parallel;
  TrainingData data;
  DeviceChoice choice;
  CommandLine command_line("ddp_training", "Lesson 5: N processes train one model.");
  options.declare(command_line, /*writes=*/root);
  parallel.declare(command_line, options, comm);
  command_line.check([&] {
    choice = choose_device(options.common.device, comm.local_rank());
    data.load(options, comm.size());
  });
  // [2] Who carries messages between the replicas: ours, MPI or NCCL.
  BackendChoice backend;
  command_line.check_together(
      [&] { backend = choose_backend(parallel.backend, comm, choice.device); });
  if (const auto exit = parse(command_line, comm, argc, argv)) return *exit;

  const Console console(options.common.json, root);
  const Stream stream(choice.device, options.common.threads);
  const OverlapChoice overlap =
      choose_overlap(parallel.overlap, backend.backend, comm, options.common.threads);
  const auto group =
      make_process_group(backend.backend, comm, choice.device,
                         kAllReduceAlgorithms.at(parallel.algorithm), overlap.overlap);

  Generator generator(options.common.seed);
  Mlp model(options.layers, generator, stream);
  data.draw(options, generator);
  // [3] Rank 0's parameters become everybody's (lesson 2), and gradients become windows on
  // messages.
  const auto ddp =
      make_data_parallel(parallel.data_parallel, model, *group, stream, parallel.bucket_caps());
  const auto optimizer = make_optimizer(options.optimizer, model.parameters(), stream);
  const LrSchedule schedule = parallel.lr_schedule(options.optimizer, comm);

  // [4] This rank's share of every epoch (lesson 4).
  DistributedSampler sampler(data.train().size(), comm.size(), comm.rank(), options.sampler);
  DataLoader loader(data.train(), options.batch_size, options.loader_drop_last, stream);
  const std::size_t batches = loader.batches(sampler.num_samples());
  const std::size_t steps_per_epoch = (batches + parallel.accumulate - 1) / parallel.accumulate;
  const std::size_t total_steps = options.total_steps(steps_per_epoch);
  const auto ranks = static_cast<std::size_t>(comm.size());
  console.line(fmt::format("{} rank{}, model {} on {} ({})", ranks, ranks == 1 ? "" : "s",
                           fmt::join(options.layers, "-"), to_string(choice.device),
                           choice.reason));
  console.line(fmt::format("gradients by {}: {}", group->description(), backend.reason));
  console.line(fmt::format("{}: {} samples, {} per rank{}, in batches of {} x {} = {}",
                           options.dataset, data.train().size(), sampler.num_samples(),
                           sampler.total_size() > data.train().size() ? " (padded)" : "", ranks,
                           options.batch_size, ranks * options.batch_size));

  const auto save = [&](std::size_t steps) {
    if (!root) return;  // all replicas are equal, and two writers would tear one file
    save_checkpoint(options.checkpoint, model.parameters(), {{"step", std::to_string(steps)}},
                    stream);
  };
  CrossEntropyLoss loss;
  TrainingLog log(console, options, total_steps, steps_per_epoch);
  for (std::size_t epoch = 0; log.steps() < total_steps; ++epoch) {
    sampler.set_epoch(epoch);
    MicroBatches micro_batches(batches, parallel.accumulate);
    for (const Batch& batch : loader.over(sampler.indices())) {
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
      ddp->backward(loss.grad(), stream);
      log.gradients_are_here(stream);
      const double lr = schedule.at(log.steps());
      optimizer->step(lr, stream);

      // [6] Rank 0's own loss would be that of rank 0's samples.
      const CommunicationTimes times = ddp->communication_times(stream);
      micro_batches.add_loss(loss.value(stream));
      const double mean_loss = mean_over_ranks(comm, micro_batches.mean_loss());
      log.step(
          epoch, mean_loss, lr, micro_batches.rows() * ranks,
          {.communication = times.total, .exposed = times.exposed, .hideable = times.hideable},
          stream);
      if (log.checkpoint_due()) {
        save(log.steps());
        log.start_clock();
      }
      if (log.steps() == total_steps) break;
    }
    std::optional<double> accuracy;
    if (data.test() != nullptr) accuracy = test_accuracy(comm, model, *data.test(), stream);
    log.epoch(epoch, accuracy);
    log.start_clock();
  }
  if (!options.checkpoint.empty()) save(log.steps());

  // [7] N models or one? Every parameter of every rank is compared.
  const std::string difference = first_difference(comm, model.parameters(), stream);
  const std::string algorithm = backend.backend == Backend::ours ? parallel.algorithm : "";
  const bool finite = log.summary({.device = to_string(choice.device),
                                   .backend = to_string(backend.backend),
                                   .algorithm = algorithm,
                                   .ranks = comm.size(),
                                   .overlap = overlap.reason},
                                  model.parameters(), difference.empty(), stream);
  return console.verdict(comm.all_agree(finite && difference.empty()),
                         "the same parameters, to the bit, on every rank",
                         difference.empty() ? "the parameters diverged"
                                            : "the replicas differ, first in " + difference);
}
