// Lesson 5's starting point: one process trains a model (build/bin/single_process). In
// ddp_by_hand.cpp, N processes do.
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/fatal.hpp"
#include "common/hash.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

int main(int argc, char** argv) {
  using namespace dist;
  install_fatal_handler();
  const Communicator comm = Communicator::alone();
  CommandLine flags("single_process", "Lesson 5's starting point: one process trains alone.");
  std::size_t epochs = 5, seed = 0;
  bool json = false;
  flags.number<std::size_t>("--epochs", epochs, 1, 1U << 30, "passes over the data");
  flags.number<std::size_t>("--seed", seed, 0, 1ULL << 62, "seed of the first parameters");
  flags.flag("--json", json, "print one JSON object per line on standard output");
  if (const auto exit = parse(flags, comm, argc, argv)) return *exit;
  const Console console(json, comm.rank() == 0);

  const IdxDataset digits = training_digits();
  const Stream stream(Device{});  // the CPU's, where all work is done at once
  Generator generator(seed);
  Mlp model({digits.features(), 512, 512, 512, digits.classes()}, generator, stream);
  const std::span<Parameter> parameters = model.parameters();
  Optimizer adam({.kind = OptimizerKind::adam}, parameters, stream);
  DistributedSampler sampler(digits.size(), /*num_replicas=*/1, /*rank=*/0);
  DataLoader loader(digits, /*batch_size=*/64, /*drop_last=*/false, stream);
  CrossEntropyLoss loss;
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    sampler.set_epoch(epoch);
    double mean = 0;
    for (const Batch& batch : loader.over(sampler.indices())) {
      loss.forward(model.forward(batch.inputs, stream), batch, stream);
      model.backward(loss.grad(), stream);
      adam.step(/*lr=*/1e-3, stream);
      mean += loss.value(stream) / static_cast<double>(loader.batches(sampler.num_samples()));
    }
    console.line("  epoch {}  loss {:.4f}", epoch + 1, mean);
  }
  const double accuracy = Evaluation(test_digits(), stream).accuracy(model);
  console.line("test accuracy {:.2f} %", 100 * accuracy);
  std::uint64_t hash = 0;
  for (const Parameter& p : parameters) hash = hash_of(p.value.span(), hash);
  console.row({{"ranks", comm.size()},
               {"test_accuracy", accuracy},
               {"fingerprint", fmt::format("{:016x}", hash)},
               {"replicas_identical", true}});
  return console.verdict(comm, all_finite(parameters, stream), "all parameters are finite",
                         "the parameters diverged");
}
