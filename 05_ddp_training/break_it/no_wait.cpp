// Belief:  overlap is free: while the all-reduces run in the background, the optimizer may
//          step.
// Predict: every bucket's all-reduce was started, but nobody waited for the last one. What does
//          the optimizer find in that bucket?
// You see: this rank's own gradients. After step 1 the replicas differ in 0.weight, the
//          parameter whose bucket was late. The difference from one process that uses the whole
//          batch is thousands of times larger than the rounding error.
// Why:     between the start of an all-reduce and wait(), the tensor belongs to the process
//          group. The all-reduce may finish at once or only in wait(), and on a fast machine a
//          test sees only the first case. To show the symptom every time, this experiment's
//          process group finishes as late as it is allowed to: when the next all-reduce starts,
//          or in wait(). After the last bucket there is no next all-reduce.
// In the wild: async_op=True without a wait, OpenNMT/OpenNMT-py#2295.
#include "05_ddp_training/break_it/small_training.hpp"
#include "05_ddp_training/process_group/process_group.hpp"

#include <future>
#include <memory>
#include <utility>

namespace dist {
namespace {

// Delays each of another group's collectives until the next one starts, which the contract
// allows.
class LateProcessGroup : public ProcessGroup {
 public:
  explicit LateProcessGroup(ProcessGroup& group)
      : ProcessGroup(group.comm(), /*overlaps=*/true, "as late as allowed"), group_(group) {}

  Tensor allocate(Shape shape) override { return group_.allocate(std::move(shape)); }
  std::unique_ptr<Work> start(const Collective& collective, const Stream& stream) override {
    if (last_.valid()) last_.wait();
    // A deferred call runs when somebody waits for its result.
    last_ = std::async(std::launch::deferred, [this, collective, &stream] {
              group_.start(collective, stream)->wait(stream);
              return 0.0;
            }).share();
    return std::make_unique<Work>(last_);
  }
  void synchronize(const Event& event) override { group_.synchronize(event); }

 private:
  ProcessGroup& group_;
  std::shared_future<double> last_;
};

struct Result {
  Parting parting;
  double from_twin;
};

Result train(const Program& program, bool waits) {
  const auto group = small_group(program);
  LateProcessGroup late(*group);
  SmallTraining job(program);
  SmallTraining twin(program, whole_batches(program), Communicator::alone());
  Reducer reducer(job.model.parameters(), late, {.first_bytes = 0, .bytes = 0});
  Result outcome{};
  for (std::size_t step = 1; step <= kSmallSteps; ++step) {
    job.model.backward(
        job.forward(), program.stream, Accumulate::no,
        [&](std::size_t parameter) { reducer.mark_ready(parameter, program.stream); });
    if (waits) reducer.finalize(program.stream);
    job.step();
    if (!waits) reducer.finalize(program.stream);
    outcome.parting.look(program, job.model, step);

    twin.model.backward(twin.forward(), program.stream);
    twin.step();
  }
  outcome.from_twin = largest_difference(job, twin);
  return outcome;
}

}  // namespace

bool break_no_wait(const Program& program) {
  const Result right = train(program, true);
  const Result wrong = train(program, false);
  for (const auto& [name, outcome] :
       {std::pair{"wait, then step", right}, std::pair{"step, then wait", wrong}}) {
    program.console.line(fmt::format(
        "  {}: up to {:.1e} away from one process with the whole batch; the replicas {}", name,
        outcome.from_twin, outcome.parting.text()));
  }
  return right.parting.step == 0 && wrong.parting.step == 1 &&
         wrong.parting.difference.starts_with("0.weight ") &&
         wrong.from_twin > 100 * right.from_twin;
}

}  // namespace dist
