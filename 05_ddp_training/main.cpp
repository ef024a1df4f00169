// Lesson 5: N processes train one model.
//
//   mpirun -np 4 build/bin/ddp_training
//   mpirun -np 4 build/bin/ddp_training --dataset idx --data FOLDER      MNIST's own files
//
// Read single_process.cpp first; this file is the same program with messages added.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/data_loader.hpp"
#include "05_ddp_training/checkpoint.hpp"
#include "05_ddp_training/distributed_data_parallel.hpp"
#include "05_ddp_training/evaluation.hpp"
#include "05_ddp_training/naive_data_parallel.hpp"
#include "05_ddp_training/optimizer.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "05_ddp_training/replica_check.hpp"
#include "05_ddp_training/training_data.hpp"
#include "05_ddp_training/training_log.hpp"
#include "common/mpi_environment.hpp"

namespace {

using namespace dist;

// The flags that only several processes need.
struct ParallelOptions {
  std::size_t global_batch = 0;
  std::string backend = "auto";
  std::string algorithm = "auto";
  std::string data_parallel = "ddp";

  void declare(CommandLine& command_line, TrainingOptions& training, const Communicator& comm) {
    command_line.number<std::size_t>("--global-batch", global_batch, 1, 1U << 30,
                                     "samples per step over all ranks, instead of --batch-size");
    command_line.choice("--backend", backend, {"auto", "ours", "mpi", "nccl"},
                        "who carries gradients; auto: nccl with a GPU per rank, else ours");
    command_line.choice("--algorithm", algorithm,
                        {"auto", "naive", "recursive-doubling", "ring", "mpi"},
                        "which all-reduce, for the backend ours");
    command_line.choice("--data-parallel", data_parallel, {"ddp", "naive"},
                        "one all-reduce for all gradients, or one for each");
    command_line.check([&, this] {
      if (global_batch == 0) return;
      if (command_line.given("--batch-size")) {
        throw Error("--global-batch: and --batch-size exclude each other");
      }
      const auto ranks = static_cast<std::size_t>(comm.size());
      if (global_batch % ranks != 0) {
        throw Error(fmt::format("--global-batch: {} does not divide by {} ranks", global_batch,
                                ranks));
      }
      training.batch_size = global_batch / ranks;
    });
  }
};

std::unique_ptr<DataParallel> wrap(const ParallelOptions& options, Mlp& model,
                                   ProcessGroup& group, const Stream& stream) {
  if (options.data_parallel == "naive") {
    return std::make_unique<NaiveDataParallel>(model, group, stream);
  }
  return std::make_unique<DistributedDataParallel>(model, group, stream);
}

// The mean over ranks of each rank's own mean loss. Rank 0's alone would be that of its batch.
double mean_over_ranks(const Communicator& comm, double value) {
  std::array mean{value};
  all_reduce<double>(comm, mean, ReduceOp::avg, AllReduceAlgorithm::recursive_doubling);
  return mean[0];
}

// Every rank tests its own part of the set, none twice, and the counts are added: the accuracy is
// the same for any number of ranks.
double test_accuracy(const Communicator& comm, Mlp& model, const Dataset& test,
                     const Stream& stream) {
  std::array<std::uint64_t, 1> correct{
      count_correct(model, test, exact_shard(test.size(), comm.size(), comm.rank()), stream)};
  all_reduce<std::uint64_t>(comm, correct, ReduceOp::sum);
  return static_cast<double>(correct[0]) / static_cast<double>(test.size());
}

}  // namespace

int main(int argc, char** argv) {
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
  if (const auto exit = parse(command_line, comm, argc, argv)) return *exit;

  const Console console(options.common.json, root);
  const Stream stream(choice.device, options.common.threads);
  const BackendChoice backend = choose_backend(parallel.backend, comm, choice.device);
  const auto group = make_process_group(backend.backend, comm, choice.device,
                                        kAllReduceAlgorithms.at(parallel.algorithm));

  Generator generator(options.common.seed);
  Mlp model(options.layers, generator, stream);
  data.draw(options, generator);
  const auto ddp = wrap(parallel, model, *group, stream);
  const auto optimizer =
      make_optimizer(options.optimizer, options.lr, model.parameters(), stream);

  DistributedSampler sampler(data.train().size(), comm.size(), comm.rank(), options.sampler);
  DataLoader loader(data.train(), options.batch_size, options.loader_drop_last, stream);
  const std::size_t steps_per_epoch = loader.batches(sampler.num_samples());
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
    for (const Batch& batch : loader.over(sampler.indices())) {
      const Tensor logits = ddp->forward(batch.inputs, stream);
      loss.forward(logits, batch.targets, stream);
      ddp->backward(loss.grad(), stream);
      optimizer->step(stream);

      log.step(epoch, mean_over_ranks(comm, loss.value(stream)), ddp->communication_ms(stream),
               batch.rows() * ranks);
      if (log.checkpoint_due()) save(log.steps());
      if (log.steps() == total_steps) break;
    }
    std::optional<double> accuracy;
    if (data.test() != nullptr) accuracy = test_accuracy(comm, model, *data.test(), stream);
    log.epoch(epoch, accuracy);
    log.start_clock();
  }
  if (!options.checkpoint.empty()) save(log.steps());

  const std::string difference = first_difference(comm, model.parameters(), stream);
  const std::string algorithm = backend.backend == Backend::ours ? parallel.algorithm : "";
  const char* const names[] = {"ours", "mpi", "nccl"};
  const bool finite = log.summary({.device = to_string(choice.device),
                                   .backend = names[static_cast<int>(backend.backend)],
                                   .algorithm = algorithm,
                                   .ranks = comm.size()},
                                  model.parameters(), difference.empty(), stream);
  if (!finite) console.line("WRONG: the parameters diverged");
  if (!difference.empty()) {
    console.line(fmt::format("WRONG: the replicas differ, first in {}", difference));
  }
  const bool correct = comm.all_agree(finite && difference.empty());
  if (correct) console.line("verified: the same parameters, to the bit, on every rank");
  return correct ? 0 : 1;
}
