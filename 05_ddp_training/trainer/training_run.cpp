#include "05_ddp_training/trainer/training_run.hpp"

#include "05_ddp_training/advanced/guards/replica_check.hpp"
#include "05_ddp_training/model/kernels.hpp"
#include "05_ddp_training/trainer/across_ranks.hpp"
#include "05_ddp_training/trainer/least_traffic.hpp"
#include "05_ddp_training/trainer/memory_use.hpp"

#include <utility>

namespace dist {
namespace {

constexpr std::size_t kNumbers = 2;  // per step: its loss, and whether to stop
constexpr std::size_t kSteps = 2;    // steps in progress

}  // namespace

TrainingRun::TrainingRun(Setup& setup, Mlp& model, Optimizer& optimizer)
    : setup_(setup),
      model_(model),
      optimizer_(optimizer),
      stream_(setup.stream()),
      schedule_(setup.schedule()),
      guards_(setup.comm(), model.parameters(),
              {.check_replicas = setup.check_replicas(),
               .stop_on_signal =
                   !setup.options.checkpoint.empty() && !setup.start.evaluates_only()}),
      numbers_(kSteps * kNumbers, stream_.device()),
      results_(kSteps * kNumbers, stream_.device(), Memory::pinned) {
  setup.data.draw(setup.options, setup.generator());
  position_ = setup.start.restore(model.parameters(), optimizer, stream_);
  if (setup.start.resumed()) share_progress(setup.comm(), position_, optimizer, stream_);

  const BatchPlan plan = setup.batches();
  const VirtualSampler sampler(setup.train().size(), setup.ranks(), plan.size,
                               setup.options.sampler);
  const std::size_t per_epoch = plan.steps(sampler.num_samples());
  std::size_t left = plan.steps(sampler.indices_after(position_.taken).size());
  if (left == 0) {  // with a different number of ranks, too few samples may be left
    position_.start_next_epoch();
    left = per_epoch;
  }
  total_steps_ =
      setup.start.evaluates_only()
          ? position_.step
          : setup.options.total_steps(position_.step, position_.epoch, left, per_epoch);
  for (const std::string& line : setup.opening(model)) setup.console().line(line);
  for (const std::string& note : setup.start.notes()) setup.console().line(note);
  log_.emplace(setup.console(), setup.options, position_.step, total_steps_);
  summary_.run = setup.description();
  summary_.least_bytes = least_bytes_per_rank(model.parameters(), setup.comm().size());
}

std::optional<std::size_t> TrainingRun::next_epoch() {
  if (position_.step >= total_steps_ || guards_.must_stop()) {
    const bool trained = times_.steps() > 0;
    if (!trained) log_->tested(test_accuracy());
    return std::nullopt;
  }
  start_clock();  // time spent earlier is not part of a step
  return position_.epoch;
}

StepOutcome TrainingRun::outcome(const CrossEntropyLoss& loss) {
  slot_ = (slot_ + 1) % kSteps;
  StepOutcome outcome{.means = loss.means(),
                      .numbers = std::span(numbers_.data() + kNumbers * slot_, kNumbers),
                      .result = std::span(results_.data() + kNumbers * slot_, kNumbers),
                      .samples = loss.samples(),
                      .waited_ms = loss.waited_ms(),
                      .ends_epoch = loss.ends_epoch()};
  mean(stream_, outcome.means.size(), outcome.means.data(), outcome.numbers.data());
  fill(stream_, 1, guards_.asked_to_stop() ? 1.0 : 0.0, outcome.numbers.data() + 1);
  copy_bytes(stream_, outcome.result.data(), outcome.numbers.data(),
             outcome.numbers.size_bytes());
  outcome.copied = stream_.record_event();
  return outcome;
}

bool TrainingRun::after_step(StepOutcome outcome) {
  Pending now{.epoch = position_.epoch,
              .lr = learning_rate(),
              .outcome = std::move(outcome),
              .update = &optimizer_.outcome(),
              .begin = std::move(step_began_),
              .optimizer_began = optimizer_.take_begin(),
              .end = stream_.record_event()};
  start_clock();
  position_.advance(now.outcome.samples * static_cast<std::size_t>(setup_.comm().size()),
                    now.outcome.ends_epoch);
  // The previous step is done by now. Read its outcome, which is the same on all ranks.
  drain();
  pending_ = std::move(now);

  const std::size_t steps = position_.step;
  const std::size_t every = setup_.options.checkpoint_every;
  const bool compare = guards_.compares_after(steps);
  const bool checkpoint = every > 0 && steps % every == 0;
  if (compare || checkpoint) {
    drain();
    if (compare) guards_.compare_replicas(steps, stream_);
    if (checkpoint && guards_.problem().empty()) save();
    start_clock();
  }
  return steps < total_steps_ && !guards_.must_stop();
}

void TrainingRun::drain() {
  if (!pending_) return;
  read(*pending_);
  pending_.reset();
}

void TrainingRun::read(Pending& step) {
  StepOutcome& outcome = step.outcome;
  outcome.wait();
  step.end.synchronize();
  StepTimes times{.step = elapsed_ms(step.begin, step.end),
                  .data = outcome.waited_ms,
                  .optimizer = elapsed_ms(step.optimizer_began, step.end)};
  if (outcome.times) {
    const CommunicationTimes communication = outcome.times();
    times.communication = communication.total;
    times.exposed = communication.exposed;
    times.hideable = communication.hideable;
  }
  if (outcome.bytes_sent) summary_.bytes_sent = outcome.bytes_sent;
  // Shared memory can be separated from the rest of the peak only after the first all-reduce
  // has touched it (MemoryUse::peak_share).
  if (times_.steps() == 0) restart_peak();
  times_.add(times, outcome.samples * static_cast<std::size_t>(setup_.comm().size()));
  log_->step(step.epoch, outcome.loss(), step.lr,
             guards_.after_step(*step.update, outcome.asked_to_stop()));
}

void TrainingRun::after_epoch() {
  const std::size_t epoch = pending_ ? pending_->epoch : position_.epoch;
  drain();
  if (guards_.must_stop()) return;
  log_->epoch(epoch, test_accuracy());
}

int TrainingRun::verdict() {
  drain();
  const Console& console = setup_.console();
  if (!guards_.problem().empty()) return console.verdict(false, "", guards_.problem());
  if (!setup_.options.checkpoint.empty() && !setup_.start.evaluates_only()) save();
  if (position_.step < total_steps_) {
    log_->stopped(setup_.options.checkpoint);
    return kStoppedOnRequest;
  }
  const Communicator& comm = setup_.comm();
  summary_.steps = log_->steps();
  summary_.skipped = log_->skipped();
  summary_.memory = count_memory(model_, optimizer_);
  summary_.memory.before = largest_over_ranks(comm, setup_.memory_before);
  summary_.memory.peak = largest_over_ranks(comm, memory_use().peak_share(comm.local_size()));

  summary_.slowest = slowest_over_ranks(comm, times_.typical().busy());

  // Check that the N models are still equal: compare every parameter of every rank.
  const std::string difference = first_difference(comm, model_.parameters(), stream_);
  summary_.replicas_identical = difference.empty();
  const bool finite = summary_.print(console, times_, model_.parameters(), stream_);
  const std::string wrong = !difference.empty() ? "the replicas differ, first in " + difference
                            : !finite           ? "the parameters diverged"
                                                : log_->problem();
  return console.verdict(comm.all_agree(wrong.empty()), setup_.promise(), wrong);
}

void TrainingRun::save() {
  if (setup_.comm().rank() != 0)
    return;  // one copy is enough, and two writers would damage the file
  save_checkpoint(setup_.options.checkpoint, model_.parameters(), optimizer_, position_,
                  setup_.settings, stream_);
}

std::optional<double> TrainingRun::test_accuracy() {
  if (setup_.data.test() == nullptr) return std::nullopt;
  summary_.test_accuracy =
      dist::test_accuracy(setup_.comm(), setup_.ranks(), model_, *setup_.data.test(), stream_);
  return summary_.test_accuracy;
}

}  // namespace dist
