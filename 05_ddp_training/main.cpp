// Lesson 5: N processes train one model.
//
//   mpirun -np 4 build/bin/ddp_training
//
// The loop of ddp_by_hand.cpp, in a trainer: with fewer messages, which travel during backward,
// with checkpoints, and on GPUs.
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/trainer/guards.hpp"
#include "05_ddp_training/trainer/mlp_task.hpp"
#include "05_ddp_training/trainer/trainer.hpp"
#include "05_ddp_training/trainer/training_plan.hpp"
#include "common/mpi_environment.hpp"

int main(int argc, char** argv) {
  using namespace dist;

  hold_stop_signals();  // a request to stop waits until a checkpoint can be written

  // [1] Every process runs this program; from here on each knows its rank.
  MpiEnvironment mpi(argc, argv);

  // [2] Are all ranks in the same run? They compare flags, data and program.
  MlpTask task;
  TrainingPlan plan(task);
  if (const auto exit = plan.start(argc, argv)) return *exit;
  const Options& options = plan.options();
  const Communicator& comm = plan.program().comm;
  const Stream& stream = plan.program().stream;

  // [3] What carries the gradients between replicas: our own all-reduce, MPI or NCCL.
  const auto group = plan.make_group();
  const auto model = plan.make_model();
  // [4] Rank 0's parameters are broadcast (lesson 2), and gradients become views of buckets.
  const auto ddp = plan.make_data_parallel(*model, *group);
  const auto optimizer = ddp->make_optimizer(options.optimizer, stream);
  CrossEntropyLoss loss;
  // Starts or resumes, reports, saves, tests.
  Trainer trainer(plan, *model, *group, *ddp, *optimizer, loss);

  // [5] This rank's share of every epoch (lesson 4).
  const Dataset& data = plan.data().train();
  DistributedSampler sampler(data.size(), comm.size(), comm.rank(), options.sampler);
  DataLoader loader(data, plan.batches(), stream);

  while (const auto epoch = trainer.next_epoch()) {
    sampler.set_epoch(*epoch);
    for (const Batch& batch : loader.over(trainer.remaining(sampler))) {
      const bool goes_on = trainer.step(batch, [&] {
        // One step: predict, compare with the labels, compute the gradients, update.
        const Tensor logits = ddp->forward(batch.inputs, stream);
        loss.forward(logits, batch, stream);
        // [6] Each full bucket starts its all-reduce (lesson 3): all ranks get the same means.
        ddp->backward(loss.grad(), batch.place, stream);
        if (batch.place.ends_step()) optimizer->step(stream);
      });
      if (!goes_on) break;
    }
    trainer.end_epoch();
  }
  return trainer.verdict();
}
