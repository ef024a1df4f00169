// The finale: N processes train a GPT, which then writes some lines.
//
//   mpirun -np 4 build/bin/gpt_training
//
// Lesson 5's loop, line by line. Only the task is another one.
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/advanced/gpt/gpt_task.hpp"
#include "05_ddp_training/advanced/gpt/test_loss.hpp"
#include "05_ddp_training/advanced/gpt/write.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/trainer/guards.hpp"
#include "05_ddp_training/trainer/trainer.hpp"
#include "05_ddp_training/trainer/training_plan.hpp"
#include "common/mpi_environment.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sstream>

// A hash of all parameters, in their order.
static std::string params_sha256(const dist::Module& model, const dist::Stream& stream) {
  std::vector<float> all;
  for (const dist::Parameter& parameter : model.parameters()) {
    const std::vector<float> some = dist::to_host(stream, parameter.value);
    all.insert(all.end(), some.begin(), some.end());
  }
  return dist::sha256(all);
}

int main(int argc, char** argv) {
  using namespace dist;

  hold_stop_signals();
  MpiEnvironment mpi(argc, argv);
  GptTask task;
  TrainingPlan plan(task);
  if (const auto exit = plan.start(argc, argv)) return *exit;
  const Options& options = plan.options();
  const Communicator& comm = plan.program().comm;
  const Stream& stream = plan.program().stream;
  const Console& console = plan.program().console;

  const auto group = plan.make_group();
  const auto model = plan.make_model();
  const auto ddp = plan.make_data_parallel(*model, *group);
  const auto optimizer = ddp->make_optimizer(options.optimizer, stream);
  CrossEntropyLoss loss;  // the mean over all tokens of a batch
  Trainer trainer(plan, *model, *group, *ddp, *optimizer, loss);

  // A sample is a window of the text, with a target for each of its tokens.
  const Dataset& windows = plan.data().train();
  DistributedSampler sampler(windows.size(), comm.size(), comm.rank(), options.sampler);
  DataLoader loader(windows, plan.batches(), stream);

  while (const auto epoch = trainer.next_epoch()) {
    sampler.set_epoch(*epoch);
    for (const Batch& batch : loader.over(trainer.remaining(sampler))) {
      const bool goes_on = trainer.step(batch, [&] {
        const Tensor logits = ddp->forward(batch.inputs, stream);
        loss.forward(logits, batch, stream);
        ddp->backward(loss.grad(), batch.place, stream);
        if (batch.place.ends_step()) optimizer->step(stream);
      });
      if (!goes_on) break;
    }
    trainer.end_epoch();
  }
  if (!trainer.is_done()) return trainer.verdict();

  const GptShape& shape = task.model().shape();
  const double unseen =
      test_loss(*model, *plan.data().test(), plan.batches().size, comm, stream);
  const double tokens = trainer.samples_per_second() * static_cast<double>(shape.context);
  console.line("loss on the last tenth of the text: {:.3f}{}", unseen,
               tokens > 0 ? fmt::format("; {:.0f} tokens per second", tokens)
                          : ", and no step was left to take");
  if (console.speaks() && !console.json()) {
    const Vocabulary& vocabulary = task.data().vocabulary();
    const std::string begin(1, vocabulary.has('\n') ? '\n' : vocabulary.character(0));
    Generator generator(plan.program().common.seed);
    std::istringstream text(write(*model, vocabulary, shape.context, begin, 400,
                                  /*temperature=*/0.7, generator, stream));
    for (std::string line; std::getline(text, line);) console.line(printable(line));
  }
  return trainer.verdict({{"test_loss", significant(unseen)},
                          {"tokens_per_s", significant(tokens)},
                          {"params_sha256", params_sha256(*model, stream)}});
}
