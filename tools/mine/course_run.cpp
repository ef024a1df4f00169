#include "tools/mine/course_run.hpp"

#include "04_distributed_sampler/data_loader.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"

#include <limits>

namespace dist::mine {

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

}  // namespace dist::mine
