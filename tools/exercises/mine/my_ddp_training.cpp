// ddp_by_hand.cpp made of the reader's own exercises (parts.hpp). Ours replace those that are
// not written yet.
//
//   ./learn mine        mpirun -np 4 build/bin/my_ddp_training
//
// The first batch of each epoch is taken in two halves, by accumulate. All others are averaged
// by sync_gradients or, once it is written, by overlap. After each epoch, checkpoint saves all,
// and training goes on with what it loads. Look at: train().
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "05_ddp_training/model/gradient_check.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/hash.hpp"
#include "common/mpi_environment.hpp"
#include "my_model.hpp"  // make_model: our Mlp, or the reader's (./learn mine --model FILE)
#include "tools/exercises/files.hpp"
#include "tools/exercises/mine/parts.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace dist::mine {
namespace {

struct Flags {
  std::size_t epochs = 5, seed = 0, batch_size = 64;
  double lr = 1e-3;
  std::string checkpoint, resume;
  bool json = false;

  void declare(CommandLine& line) {
    line.number<std::size_t>("--epochs", epochs, 1, 1U << 30, "passes over the data");
    line.number<std::size_t>("--seed", seed, 0, 1ULL << 62, "seed of the first parameters");
    line.number<std::size_t>("--batch-size", batch_size, 1, 1U << 20, "samples, per rank");
    line.number("--lr", lr, 0.0, 1e3, "learning rate");
    line.text("--checkpoint", checkpoint, "keep what is saved after each epoch in this file");
    line.text("--resume", resume, "go on from this file");
    line.flag("--json", json, "print one JSON object per line on standard output");
  }
};

// Replicas, with all that a step needs.
struct Training {
  const Flags& flags;
  const Communicator& comm;
  const Console& console;
  const IdxDataset& digits;
  Module& model;
  const Stream stream{Device{}};  // the CPU's, where all work is done at once
  std::span<Parameter> parameters = model.parameters();
  Optimizer adam{{.kind = OptimizerKind::adam}, parameters, stream};
  CrossEntropyLoss loss{};

  double forward(const Tensor& inputs, std::span<const std::int32_t> targets) {
    loss.forward(model.forward(inputs, stream), targets, stream);
    return loss.value(stream);
  }
  // The mean of two halves of the batch. An odd row is left out.
  double accumulate_halves(const Batch& batch, const Gradients& gradients) {
    const std::size_t rows = batch.rows() / 2, width = batch.inputs.numel() / batch.rows();
    double mean = 0;
    accumulate(comm, 2, gradients, [&](std::size_t k) {
      const Tensor inputs =
          batch.inputs.narrow(k * rows * width, rows * width).view({rows, width});
      mean += forward(inputs, batch.targets.subspan(k * rows, rows)) / 2;
      model.backward(loss.grad(), stream);
    });
    return mean;
  }

  exercise::TrainingState state() const {
    exercise::TrainingState all;
    all.step = adam.steps(stream);
    for (const Parameter& p : parameters) append(all.parameters, p.value);
    for (const Optimizer::State& each : adam.state()) append(all.momentum, each.value);
    return all;
  }
  void set_state(const exercise::TrainingState& all, const std::string& where) {
    const exercise::TrainingState now = state();
    if (all.parameters.size() != now.parameters.size() ||
        all.momentum.size() != now.momentum.size()) {
      throw Error(fmt::format("{} holds {} parameters, but the model has {}", where,
                              all.parameters.size(), now.parameters.size()));
    }
    const float *value = all.parameters.data(), *momentum = all.momentum.data();
    for (const Parameter& p : parameters) value = take(value, p.value);
    for (const Optimizer::State& each : adam.state()) momentum = take(momentum, each.value);
    adam.set_steps(all.step, stream);
  }
  static void append(std::vector<float>& all, const Tensor& tensor) {
    all.insert(all.end(), tensor.span().begin(), tensor.span().end());
  }
  static const float* take(const float* from, const Tensor& tensor) {
    std::copy_n(from, tensor.numel(), tensor.span().begin());
    return from + tensor.numel();
  }

  void train() {
    // Each rank draws its own parameters, then all take rank 0's (lesson 2).
    for (const Parameter& p : parameters) tree_broadcast(comm, p.value.span(), /*root=*/0);
    Gradients gradients;
    for (const Parameter& p : parameters) gradients.push_back(p.grad.span());
    const auto group = make_process_group(Backend::ours, comm, Device{},
                                          AllReduceAlgorithm::ring, /*overlap=*/true);
    std::optional<Overlap> overlap;
    if (part_called("overlap").yours) overlap.emplace(*group, parameters, stream);
    // Each rank takes its share of every epoch's order (lesson 4).
    DistributedSampler sampler(digits.size(), comm.size(), comm.rank());
    DistributedSampler everyone(digits.size(), 1, 0);
    DataLoader loader(digits, flags.batch_size, /*drop_last=*/false, stream);
    const test::TemporaryFolder folder;
    const std::string file = flags.checkpoint.empty() ? folder / "mine" : flags.checkpoint;
    const std::size_t steps = loader.batches(sampler.num_samples());
    if (!flags.resume.empty()) set_state(loaded_from(comm, flags.resume), flags.resume);
    for (std::size_t epoch = adam.steps(stream) / steps; epoch < flags.epochs; ++epoch) {
      sampler.set_epoch(epoch), everyone.set_epoch(epoch);
      double sum = 0;
      std::size_t step = 0;
      for (const Batch& batch :
           loader.over(my_indices(comm, everyone.indices(), sampler.indices()))) {
        double mean = 0;
        // All ranks get the mean of their gradients, so they make the same update.
        if (step == 0 && batch.rows() > 1) {
          mean = accumulate_halves(batch, gradients);
        } else if (mean = forward(batch.inputs, batch.targets); overlap) {
          model.backward(loss.grad(), stream, Accumulate::no,
                         [&](std::size_t index) { overlap->mark_ready(index); });
          overlap->finalize(/*compares=*/step == 1);
        } else {
          model.backward(loss.grad(), stream);
          sync_gradients(comm, gradients);
        }
        adam.step(flags.lr, stream);
        dist::all_reduce_ring(comm, std::span(&mean, 1), ReduceOp::avg);
        ++step;
        console.row({{"step", epoch * steps + step}, {"epoch", epoch + 1}, {"loss", mean}});
        sum += mean;
      }
      console.line("  epoch {}  loss {:.4f}", epoch + 1, sum / static_cast<double>(steps));
      set_state(there_and_back(comm, file, state()), file);
    }
  }
};

// Called on all ranks. A part that has never run is not one of the trainer's, whoever wrote it.
bool has_run(const Communicator& comm, const Part& part) {
  return comm.all_agree(part.runs > 0);
}

// Called on all ranks: what is wrong with the parts; empty if nothing is.
std::string wrong_part(const Communicator& comm) {
  for (const Part& part : parts) {
    if (comm.all_agree(!part.wrong)) continue;
    return fmt::format("{}; run ./learn check {} {} to see why", part.name, part.lesson,
                       part.name);
  }
  return "";
}

// Called on all ranks: says of a part that has never run which other one does not call it.
void note_what_never_ran(const Communicator& comm, const Console& console) {
  if (comm.size() == 1) return;
  if (!has_run(comm, part_called("ring_all_reduce"))) {
    console.line(
        "note: ring_all_reduce and ring_shift never ran, because sync_gradients does "
        "not call");
    console.line("  all_reduce<float>(comm, message, ReduceOp::avg, AllReduceAlgorithm::ring)");
  } else if (!has_run(comm, part_called("ring_shift"))) {
    console.line("note: ring_shift never ran, because ring_all_reduce does not call");
    console.line("  send_recv<float>(comm, out, comm.right(), in, comm.left())");
  }
}

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();
  CommandLine line("my_ddp_training", "A trainer made of your own exercises.");
  Flags flags;
  flags.declare(line);
  line.check([&] {
    if (comm.rank() == 0 && !flags.resume.empty() && !std::filesystem::exists(flags.resume)) {
      throw Error("--resume: there is no file " + flags.resume);
    }
  });
  if (const auto exit = parse(line, comm, argc, argv)) return *exit;
  const Console console(flags.json, comm.rank() == 0);
  name_crashes();
  limit_memory(std::size_t{4} << 30);  // far more than needed; more makes a machine unusable
  for (const Part& part : parts) {
    const std::string whose = part.yours ? "yours" : "ours";
    console.line("{}: {}", whose, part.name);
    console.row({{"part", part.name}, {"whose", whose}});
  }
  const IdxDataset digits = training_digits();
  Generator generator(flags.seed + static_cast<std::size_t>(comm.rank()));
  const std::unique_ptr<Module> model = make_model(digits, generator);
  Training training{flags, comm, console, digits, *model};
  if (kModelIsYours) {
    DataLoader some(digits, /*batch_size=*/16, /*drop_last=*/false, training.stream);
    std::vector<std::size_t> sixteen(16);
    std::iota(sixteen.begin(), sixteen.end(), 0);
    const Batch& first = *some.over(sixteen).begin();
    const std::string wrong = wrong_gradient(*model, first.inputs, first.targets);
    if (!comm.all_agree(wrong.empty())) return console.verdict(comm, wrong.empty(), "", wrong);
  }
  training.train();

  const double accuracy = Evaluation(test_digits(), training.stream).accuracy(*model);
  console.line("test accuracy {:.2f} %", 100 * accuracy);
  std::uint64_t hash = 0;
  for (const Parameter& p : training.parameters) hash = hash_of(p.value.span(), hash);
  const std::vector<std::uint64_t> hashes = comm.all_gather(hash);
  const bool identical = std::ranges::count(hashes, hashes[0]) == comm.size();
  std::string calls;
  for (const Part& part : parts) calls += fmt::format(" {} {}", part.name, part.runs);
  console.line("calls on rank 0:" + calls);
  note_what_never_ran(comm, console);
  int yours = 0;
  for (const Part& part : parts) yours += has_run(comm, part) && part.yours ? 1 : 0;
  const std::string wrong = wrong_part(comm);
  console.row({{"ranks", comm.size()},
               {"test_accuracy", accuracy},
               {"fingerprint", fmt::format("{:016x}", hash)},
               {"replicas_identical", identical},
               {"yours", yours},
               {"bit_for_bit", wrong.empty()}});
  const bool finite = all_finite(training.parameters, training.stream);
  return console.verdict(
      comm, identical && finite && wrong.empty(),
      fmt::format("{} of {} parts are yours; the parameters equal the course's, bit for bit",
                  yours, std::size(parts)),
      !wrong.empty() ? wrong
      : identical    ? "the parameters diverged"
                     : "the replicas differ");
}

}  // namespace
}  // namespace dist::mine

int main(int argc, char** argv) {
  return dist::mine::main(argc, argv);
}
