// ddp_by_hand.cpp made of the reader's own exercises. The course's references replace exercises
// that are not written yet.
//
//   ./learn mine        mpirun -np 4 build/bin/my_ddp_training
//
// Afterwards the course's own functions train the same model, and all parameters must be equal,
// bit for bit.
#include "02_broadcast/binomial_tree.hpp"
#include "02_broadcast/hash.hpp"
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/mpi_environment.hpp"
#include "tools/exercises/confined.hpp"
#include "tools/mine/parts.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

using namespace dist;
using namespace dist::mine;

namespace {

// How much memory the parts and the training may use: far more than they need, and less than
// makes a machine unusable.
constexpr std::size_t kMemory = std::size_t{4} << 30;

// Called on all ranks. Trains a model with the reader's parts, or else with the course's own.
Mlp train(const Communicator& comm, std::size_t epochs, std::size_t seed, bool mine,
          const Console& console) {
  const IdxDataset digits = training_digits();
  const Stream stream(Device{});
  // Each rank draws different numbers, and the root is not rank 0, so a broadcast that does
  // nothing, or ignores the root, is detected.
  const int root = comm.size() - 1;
  Generator generator(seed + static_cast<std::size_t>(root - comm.rank()));
  Mlp model({digits.features(), 512, 512, 512, digits.classes()}, generator, stream);
  std::vector<std::span<float>> gradients;
  for (const Parameter& p : model.parameters()) {
    gradients.push_back(p.grad.span());
    mine ? tree_broadcast(comm, p.value.span(), root)
         : broadcast_tree(comm, p.value.span(), root);
  }
  const auto adam = make_optimizer({.name = "adam"}, model.parameters(), stream);
  DistributedSampler everyone(digits.size(), 1, 0);  // the common order
  DistributedSampler sampler(digits.size(), comm.size(), comm.rank());
  DataLoader loader(digits, /*batch_size=*/64, /*drop_last=*/false, stream);
  CrossEntropyLoss loss;
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    everyone.set_epoch(epoch);
    sampler.set_epoch(epoch);
    const auto indices = mine ? my_indices(comm, everyone.indices()) : sampler.indices();
    for (const Batch& batch : loader.over(indices)) {
      loss.forward(model.forward(batch.inputs, stream), batch, stream);
      model.backward(loss.grad(), stream);
      mine ? sync_gradients(comm, gradients) : average_as_the_course(comm, gradients);
      adam->step(/*lr=*/1e-3, stream);
    }
    console.line(fmt::format("  epoch {}  last loss {:.4f}", epoch + 1, loss.value(stream)));
  }
  const double accuracy = Evaluation(test_digits(), stream).accuracy(model);
  console.line(fmt::format("test accuracy {:.2f} %", 100 * accuracy));
  return model;
}

// What is wrong with the reader's parts; empty if nothing is. Called on all ranks.
std::string problem(const Communicator& comm, const Mlp& mine, const Mlp& course) {
  for (const Part& part : parts()) {
    if (!comm.all_agree(!part.wrong)) {
      return fmt::format("{}; run ./learn check {} {} to see why", part.name, part.lesson,
                         part.name);
    }
  }
  for (const Part& part : parts()) {
    if (comm.size() > 1 && !comm.all_agree(part.runs > 0)) {
      return fmt::format(
          "{} never ran: the part that should call it calls something else (see "
          "the contracts of lessons 3 and 5)",
          part.name);
    }
  }
  const auto same_bits = [](const Parameter& a, const Parameter& b) {
    return std::memcmp(a.value.data(), b.value.data(), a.value.size_bytes()) == 0;
  };
  const bool same = std::ranges::equal(mine.parameters(), course.parameters(), same_bits);
  return comm.all_agree(same) ? "" : "the parameters differ from the course's";
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();
  CommandLine flags("my_ddp_training", "The trainer of lesson 5, made of your own exercises.");
  std::size_t epochs = 5, seed = 0;
  bool json = false;
  flags.number<std::size_t>("--epochs", epochs, 1, 1U << 30, "passes over the data");
  flags.number<std::size_t>("--seed", seed, 0, 1ULL << 62, "seed of the first parameters");
  flags.flag("--json", json, "print one JSON object per line on standard output");
  if (const auto exit = parse(flags, comm, argc, argv)) return *exit;
  const Console console(json, comm.rank() == 0);
  name_crashes();
  limit_memory(kMemory);
  for (const Part& part : parts()) {
    const std::string whose = part.yours ? "yours" : "ours";
    console.line(whose + ": " + part.name);
    console.row({{"part", part.name}, {"whose", whose}});
  }

  const Mlp mine = train(comm, epochs, seed, /*mine=*/true, console);
  std::string calls;
  for (const Part& part : parts()) calls += fmt::format(" {} {}", part.name, part.runs);
  console.line("calls on rank 0:" + calls);
  console.line("now the course's own functions train the same model");
  const Mlp course = train(comm, epochs, seed, /*mine=*/false, console);
  const std::string wrong = problem(comm, mine, course);
  const auto yours = std::ranges::count_if(parts(), &Part::yours);
  std::uint64_t hash = 0;
  for (const Parameter& p : mine.parameters()) hash = hash_of(p.value.span(), hash);
  console.row({{"yours", yours},
               {"fingerprint", fmt::format("{:016x}", hash)},
               {"bit_for_bit", wrong.empty()}});
  return console.verdict(
      wrong.empty(),
      fmt::format("{} of 5 parts are yours; the parameters equal the course's, bit for bit",
                  yours),
      wrong);
}
