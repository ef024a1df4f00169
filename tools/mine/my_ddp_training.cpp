// Lesson 5's trainer, made of the reader's own exercises. The course's references replace
// exercises that are not written yet.
//
//   ./learn mine        mpirun -np 4 build/bin/my_ddp_training
//
// Compare with 05_ddp_training/main.cpp: the loop is the same. Afterwards the course's own
// parts train the same model, and all parameters must be equal, bit for bit.
#include "04_distributed_sampler/data_loader.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/trainer/guards.hpp"
#include "05_ddp_training/trainer/run.hpp"
#include "05_ddp_training/trainer/setup.hpp"
#include "common/mpi_environment.hpp"
#include "tools/mine/my_data_parallel.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <limits>

namespace dist::mine {
namespace {

// How much memory the parts and the training may use: far more than they need, and less than
// makes a machine unusable.
constexpr std::size_t kMemory = std::size_t{4} << 30;

void print_parts(const Console& console) {
  for (const Part* part : parts()) {
    const std::string whose = part->yours ? "yours" : "ours";
    console.line(whose + ": " + part->name);
    console.row({{"part", part->name}, {"whose", whose}});
  }
}

// The first parameter whose bits differ between the models, such as "2.weight"; "" if none
// differ.
std::string first_difference(const Mlp& mine, const Mlp& course) {
  for (std::size_t p = 0; p < mine.parameters().size(); ++p) {
    const Tensor& a = mine.parameters()[p].value;
    const Tensor& b = course.parameters()[p].value;
    if (std::memcmp(a.data(), b.data(), a.size_bytes()) != 0) return mine.parameters()[p].name;
  }
  return {};
}

// Called on all ranks. Trains `model` as specified in `setup`, with the course's own broadcast,
// sampler and ring all-reduce, and prints nothing. All gradients travel in one bucket: with
// several buckets, chunks would begin at different elements, and sums over three or more ranks
// would round differently.
void train_as_the_course(Setup& setup, Mlp& model) {
  const Stream& stream = setup.stream();
  const auto optimizer = make_optimizer(setup.options.optimizer, model.parameters(), stream);
  setup.restore(model, *optimizer);
  const auto group = make_process_group(Backend::ours, setup.comm(), stream.device(),
                                        AllReduceAlgorithm::ring);
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  DistributedDataParallel ddp(model, *group, stream, {.first_bytes = kAll, .bytes = kAll});
  const BatchPlan plan = setup.batches();
  const Communicator& comm = setup.comm();
  DistributedSampler sampler(setup.train().size(), comm.size(), comm.rank(),
                             setup.options.sampler);
  DataLoader loader(setup.train(), plan, stream);
  const StepNumbers numbers(stream.device());
  CrossEntropyLoss loss = setup.make_loss(numbers);
  const LrSchedule schedule = setup.schedule();
  const std::size_t per_epoch = plan.steps(sampler.num_samples());
  const std::size_t steps = setup.options.total_steps(0, 0, per_epoch, per_epoch);
  std::size_t step = 0;
  for (std::size_t epoch = 0; step < steps; ++epoch) {
    sampler.set_epoch(epoch);
    for (const Batch& batch : loader.over(sampler.indices())) {
      loss.forward(ddp.forward(batch.inputs, stream), batch, stream);
      ddp.backward(loss.grad(), stream);
      optimizer->step(schedule.at(step), stream);
      if (++step == steps) break;
    }
  }
}

int fail(const Console& console, const std::string& what) {
  return console.verdict(false, "", what);
}

int train(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();
  Setup setup("my_ddp_training", "The trainer of lesson 5, made of your own exercises.", comm,
              Setup::Flags::training_only);
  setup.options.common.device = "cpu";
  setup.options.overlap = false;
  setup.options.check_replicas = 0;  // the comparison at the end is the judge
  const auto check = [&] {
    if (!setup.device().is_cpu()) throw Error("--device: your exercises compute on the CPU");
    if (setup.options.resume || setup.options.evaluate) {
      throw Error(std::string(setup.options.resume ? "--resume" : "--evaluate") +
                  ": this trainer always trains from the beginning");
    }
  };
  if (const auto exit = setup.read(argc, argv, check)) return *exit;
  const Console& console = setup.console();
  const Stream& stream = setup.stream();
  print_parts(console);
  name_crashes();
  limit_memory(kMemory);

  if (const Part* wrong = first_wrong_part(comm)) {
    return fail(console, fmt::format("{}; run ./learn check {} {} to see why", wrong->name,
                                     wrong->lesson, wrong->name));
  }
  for (Part* part : parts()) part->runs = 0;

  // Each rank draws different numbers, so a broadcast that does nothing is detected.
  const auto draw = [&] {
    Generator generator(setup.options.common.seed + static_cast<std::uint64_t>(comm.rank()));
    return Mlp(setup.options.layers, generator, stream, setup.precision());
  };
  Mlp model = draw();
  const auto optimizer = make_optimizer(setup.options.optimizer, model.parameters(), stream);
  const auto group = setup.make_group();
  TrainingRun run(setup, model, *optimizer);
  run.report().run.backend = "yours";
  run.report().run.shard = "";
  run.report().run.overlaps = false;  // sync_gradients begins when backward has ended
  MyDataParallel ddp(model, *group);

  MySampler sampler(setup.train().size(), comm, setup.options.sampler);
  DataLoader loader(setup.train(), setup.batches(), stream);
  CrossEntropyLoss loss = run.make_loss();
  while (const auto epoch = run.next_epoch()) {
    sampler.set_epoch(*epoch);
    for (const Batch& batch : loader.over(run.remaining(sampler))) {
      run.step(batch, [&] {
        const Tensor logits = ddp.forward(batch.inputs, stream);
        loss.forward(logits, batch, stream);
        ddp.backward(loss, stream);
        optimizer->step(stream);
      });
      if (!run.after(batch, ddp.take_communication())) break;
    }
    run.after_epoch();
  }
  if (const int status = run.verdict(); status != 0) return status;

  for (const Part* part : parts()) {
    if (comm.size() == 1 || comm.all_agree(part->runs > 0)) continue;
    return fail(console, fmt::format("{} never ran: the part that should call it calls "
                                     "something else (see the contracts of lessons 3 and 5)",
                                     part->name));
  }

  std::string calls;
  for (const Part* part : parts()) calls += fmt::format(" {} {},", part->name, part->runs);
  console.line("calls on rank 0:" + calls.substr(0, calls.size() - 1));
  console.line("now the course's own parts train the same model");
  Mlp course = draw();
  train_as_the_course(setup, course);
  const std::string difference = first_difference(model, course);
  const bool same = comm.all_agree(difference.empty());
  const auto yours = std::ranges::count_if(parts(), [](const Part* p) { return p->yours; });
  console.row({{"yours", yours}, {"bit_for_bit", same}});
  return console.verdict(
      same,
      fmt::format("{} of 5 parts are yours; the parameters equal the course's, bit for bit",
                  yours),
      "the parameters differ from the course's, first in " + difference);
}

}  // namespace
}  // namespace dist::mine

int main(int argc, char** argv) {
  dist::hold_stop_signals();  // a request to stop waits until a checkpoint can be written
  return dist::mine::train(argc, argv);
}
