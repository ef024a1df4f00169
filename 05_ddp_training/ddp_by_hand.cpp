// Lesson 5, by hand: N processes train one model, with nothing but lessons 2 to 4. This is
// single_process.cpp with the changes that the numbered comments explain.
//
//   mpirun -np 4 build/bin/ddp_by_hand
#include "02_broadcast/binomial_tree.hpp"
#include "03_all_reduce/ring.hpp"
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/hash.hpp"
#include "common/mpi_environment.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

int main(int argc, char** argv) {
  using namespace dist;
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();
  CommandLine flags("ddp_by_hand", "Lesson 5, by hand: N processes train one model.");
  std::size_t epochs = 5, seed = 0;
  bool json = false;
  flags.number<std::size_t>("--epochs", epochs, 1, 1U << 30, "passes over the data");
  flags.number<std::size_t>("--seed", seed, 0, 1ULL << 62, "seed of the first parameters");
  flags.flag("--json", json, "print one JSON object per line on standard output");
  if (const auto exit = parse(flags, comm, argc, argv)) return *exit;
  const Console console(json, comm.rank() == 0);

  const IdxDataset digits = training_digits();
  const Stream stream(Device{});  // the CPU's, where all work is done at once
  // [4] Each rank draws its own parameters, then all take rank 0's (lesson 2).
  Generator generator(seed + static_cast<std::size_t>(comm.rank()));
  Mlp model({digits.features(), 512, 512, 512, digits.classes()}, generator, stream);
  const std::span<Parameter> parameters = model.parameters();
  for (const Parameter& p : parameters) broadcast_tree(comm, p.value.span(), /*root=*/0);
  Optimizer adam({.kind = OptimizerKind::adam}, parameters, stream);
  // [5] Each rank takes its share of every epoch (lesson 4).
  DistributedSampler sampler(digits.size(), comm.size(), comm.rank());
  DataLoader loader(digits, /*batch_size=*/64, /*drop_last=*/false, stream);
  CrossEntropyLoss loss;
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    sampler.set_epoch(epoch);
    double mean = 0;
    for (const Batch& batch : loader.over(sampler.indices())) {
      loss.forward(model.forward(batch.inputs, stream), batch, stream);
      model.backward(loss.grad(), stream);
      // [6] All ranks get the mean of their gradients (lesson 3), so they make the same update.
      for (const Parameter& p : parameters) all_reduce_ring(comm, p.grad.span(), ReduceOp::avg);
      adam.step(/*lr=*/1e-3, stream);
      mean += loss.value(stream) / static_cast<double>(loader.batches(sampler.num_samples()));
    }
    all_reduce_ring(comm, std::span(&mean, 1), ReduceOp::avg);
    console.line("  epoch {}  loss {:.4f}", epoch + 1, mean);
  }
  const double accuracy = Evaluation(test_digits(), stream).accuracy(model);
  console.line("test accuracy {:.2f} %", 100 * accuracy);
  std::uint64_t hash = 0;
  for (const Parameter& p : parameters) hash = hash_of(p.value.span(), hash);
  // The replicas are equal, bit for bit, if every rank has rank 0's hash.
  std::uint64_t root_hash = hash;
  broadcast_tree(comm, std::span(&root_hash, 1), /*root=*/0);
  const bool identical = comm.all_agree(hash == root_hash);
  console.row({{"ranks", comm.size()},
               {"test_accuracy", accuracy},
               {"fingerprint", fmt::format("{:016x}", hash)},
               {"replicas_identical", identical}});
  return console.verdict(comm, identical && all_finite(parameters, stream),
                         "the same parameters, bit for bit, on every rank",
                         identical ? "the parameters diverged" : "the replicas differ");
}
