// Lesson 5's starting point: one process trains a model, without MPI.
//
//   build/bin/single_process
//
// The difference between this file and main.cpp is what data parallelism adds:
//   diff 05_ddp_training/single_process.cpp 05_ddp_training/main.cpp
#include "04_distributed_sampler/data_loader.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/trainer/guards/stop_request.hpp"
#include "05_ddp_training/trainer/options/setup.hpp"
#include "05_ddp_training/trainer/training_run.hpp"
#include "common/fatal.hpp"

int main(int argc, char** argv) {
  using namespace dist;

  hold_stop_signals();  // a request to stop waits until a checkpoint can be written

  install_fatal_handler();
  const Communicator comm = Communicator::alone();

  // Read and check the flags, choose the device, load the data.
  Setup setup("single_process", comm);
  if (const auto exit = setup.read(argc, argv)) return *exit;
  const Stream& stream = setup.stream();

  Mlp model(setup.options.layers, setup.generator(), stream, setup.precision());
  const auto optimizer = setup.make_optimizer(model);
  TrainingRun run(setup, model, *optimizer);  // starts or resumes, reports, saves, tests

  // A sampler for one rank: it yields every sample, in PyTorch's order.
  DistributedSampler sampler(setup.train().size(), 1, 0, setup.options.sampler);
  DataLoader loader(setup.train(), setup.batches(), stream);
  CrossEntropyLoss loss(run.numbers());

  while (const auto epoch = run.next_epoch()) {
    sampler.set_epoch(*epoch);
    for (const Batch& batch : loader.over(run.remaining(sampler))) {
      run.step(batch, [&] {
        // One step: predict, compare with the labels, compute the gradients, update.
        const Tensor logits = model.forward(batch.inputs, stream);
        loss.forward(logits, batch, stream);
        model.backward(loss.grad(), stream);
        optimizer->step(stream);
      });
      if (!run.after(batch)) break;
    }
    run.after_epoch();
  }
  return run.verdict();
}
