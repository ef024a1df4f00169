// Lesson 5: N processes train one model.
//
//   mpirun -np 4 build/bin/ddp_training
//
// The loop of ddp_by_hand.cpp, in a trainer: with fewer messages, which travel during backward,
// with checkpoints, and on GPUs.
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/trainer/guards.hpp"
#include "05_ddp_training/trainer/run.hpp"
#include "05_ddp_training/trainer/setup.hpp"
#include "common/mpi_environment.hpp"

int main(int argc, char** argv) {
  using namespace dist;

  hold_stop_signals();  // a request to stop waits until a checkpoint can be written

  // [1] Every process runs this program; from here on each knows its rank.
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();

  // [2] Are all ranks in the same run? They compare flags, data and program.
  Setup setup(comm);
  if (const auto exit = setup.read(argc, argv)) return *exit;
  const Stream& stream = setup.stream();

  Mlp model(setup.options.layers, setup.generator(), stream, setup.precision());
  const auto optimizer = setup.make_optimizer(model);
  // [3] What carries the gradients between replicas: our own all-reduce, MPI or NCCL.
  const auto group = setup.make_group();
  TrainingRun run(setup, model, *optimizer);  // starts or resumes, reports, saves, tests
  // [4] Rank 0's parameters are broadcast (lesson 2), and gradients become views of buckets.
  const auto ddp = setup.make_data_parallel(model, *group);

  // [5] This rank's share of every epoch (lesson 4).
  DistributedSampler sampler(setup.train().size(), comm.size(), comm.rank(),
                             setup.options.sampler);
  DataLoader loader(setup.train(), setup.batches(), stream);
  CrossEntropyLoss loss = run.make_loss();

  while (const auto epoch = run.next_epoch()) {
    sampler.set_epoch(*epoch);
    for (const Batch& batch : loader.over(run.remaining(sampler))) {
      run.step(batch, [&] {
        // One step: predict, compare with the labels, compute the gradients, update.
        const Tensor logits = ddp->forward(batch.inputs, stream);
        loss.forward(logits, batch, stream);
        // [6] Each full bucket starts its all-reduce (lesson 3): all ranks get the same means.
        ddp->backward(loss, stream);
        if (batch.place.ends_step()) optimizer->step(stream);
      });
      if (!run.after(batch, ddp->take_communication())) break;
    }
    run.after_epoch();
  }
  return run.verdict();
}
