#include "05_ddp_training/trainer/training_run.hpp"

#include "05_ddp_training/data_parallel/replica_check.hpp"
#include "05_ddp_training/model/kernels.hpp"
#include "05_ddp_training/trainer/across_ranks.hpp"
#include "05_ddp_training/trainer/report/memory_use.hpp"
#include "05_ddp_training/trainer/report/traffic.hpp"

#include <utility>

namespace dist {
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
      graph_(stream_, setup.uses_graph()),
      numbers_(stream_.device()),
      most_pending_(stream_.device().is_cpu() ? 2 : kMostStepsInFlight) {
  optimizer.report_also(std::span(numbers_.mean.data(), numbers_.mean.size()));
  setup.data.draw(setup.options, setup.generator());
  const Shard* const shard = setup.shard();
  position_ = setup.start.restore(model.parameters(), optimizer, stream_, shard != nullptr);
  if (setup.start.resumed()) {
    share_progress(setup.comm(), position_, optimizer, stream_, shard);
    if (shard != nullptr) {
      share_state(setup.comm(), setup.start.file(), model.parameters(), optimizer, *shard,
                  stream_);
    }
  }

  const BatchPlan plan = setup.batches();
  const DistributedSampler sampler(setup.train().size(), setup.ranks().count(), /*rank=*/0,
                                   setup.options.sampler);  // all ranks take equally many steps
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
  summary_.least_bytes = least_bytes_per_rank(model.parameters(), setup.comm().size(), shard);
}

std::optional<std::size_t> TrainingRun::next_epoch() {
  if (position_.step >= total_steps_ || guards_.must_stop()) {
    const bool trained = times_.steps() > 0;
    if (!trained) log_->tested(test_accuracy());
    return std::nullopt;
  }
  start_clock();  // time spent earlier is not part of a step
  epoch_ = position_.epoch;
  return epoch_;
}

std::vector<BatchSamples> TrainingRun::remaining_of_played_ranks() const {
  VirtualSampler sampler(setup_.train().size(), setup_.ranks(), setup_.batches(),
                         setup_.options.sampler);
  sampler.set_epoch(epoch_);
  return sampler.indices_after(position_.taken);
}

void TrainingRun::start_clock() {
  step_began_ = stream_.record_event();
  waits_ = gpu_waits;
  allocations_ = gpu_allocations;
}

void TrainingRun::step(const Batch& batch, const std::function<void()>& queue_step) {
  if (batch.place.ends_step()) optimizer_.set_next_lr(learning_rate());
  const auto run = [&] { replayed_ = !graph_.run(batch, queue_step) || replayed_; };
  if (!counts_ || setup_.group == nullptr) return run();
  const auto bytes = bytes_sent_per_rank(setup_.comm(), run);
  if (bytes) summary_.bytes_sent = summary_.bytes_sent.value_or(0) + *bytes;
}

bool TrainingRun::after(const Batch& batch, std::optional<Communication> sent) {
  samples_ += batch.rows();
  waited_ms_ += batch.waited_ms;
  if (!batch.place.ends_step()) return true;
  counts_ = false;  // all steps send the same
  const std::size_t samples = std::exchange(samples_, 0);
  pending_.push_back({.epoch = epoch_,
                      .replayed = std::exchange(replayed_, false),
                      .samples = samples * static_cast<std::size_t>(setup_.comm().size()),
                      .waited_ms = std::exchange(waited_ms_, 0),
                      .lr = learning_rate(),
                      .waits = static_cast<double>(gpu_waits - waits_),
                      .allocations = static_cast<double>(gpu_allocations - allocations_),
                      .sent = std::move(sent),
                      .report = &optimizer_.report(),
                      .begin = std::move(step_began_),
                      .optimizer_began = optimizer_.take_begin(),
                      .end = stream_.record_event()});
  start_clock();
  position_.advance(pending_.back().samples, batch.place.ends_epoch);
  numbers_.stop.data()[0] = guards_.asked_to_stop() ? 1.0 : 0.0;
  // Most of these steps are done by now. What they report is the same on all ranks.
  if (pending_.size() == most_pending_) read(most_pending_ / 2);

  const std::size_t steps = position_.step;
  const std::size_t every = setup_.options.checkpoint_every;
  const bool compare = guards_.compares_after(steps);
  const bool checkpoint = every > 0 && steps % every == 0;
  if (compare || checkpoint) {
    read(pending_.size());
    if (compare) {
      const Stopwatch clock(summary_.between.replica_checks);
      guards_.compare_replicas(steps, stream_);
    }
    if (checkpoint && guards_.problem().empty()) save();
    start_clock();
  }
  return steps < total_steps_ && !guards_.must_stop();
}

void TrainingRun::read(std::size_t count) {
  if (count == 0) return;
  const Pending& last = pending_[count - 1];
  setup_.group != nullptr ? setup_.group->synchronize(last.end) : last.end.synchronize();
  for (; count > 0; --count) {
    read(pending_.front());
    pending_.pop_front();
  }
}

void TrainingRun::read(const Pending& step) {
  StepTimes times{.replayed = step.replayed,
                  .samples = step.samples,
                  .step = elapsed_ms(step.begin, step.end),
                  .data = step.waited_ms,
                  .waits = step.waits,
                  .allocations = step.allocations};
  if (!step.replayed && step.sent) {
    const CommunicationTimes communication = step.sent->times();
    times.communication = communication.total;
    times.exposed = communication.exposed;
    times.hideable = communication.hideable;
  }
  if (!step.replayed) times.optimizer = elapsed_ms(*step.optimizer_began, step.end);
  // Shared memory can be separated from the rest of the peak only after the first all-reduce
  // has touched it (MemoryUse::peak_share).
  if (times_.steps() == 0) restart_peak();
  times_.add(times);
  std::optional<double> norm;
  if (setup_.options.optimizer.clip_norm > 0) norm = step.report->norm;
  log_->step(step.epoch, step.report->loss, step.lr,
             guards_.after_step(*step.report, step.report->stop), norm);
}

void TrainingRun::after_epoch() {
  read(pending_.size());
  if (guards_.must_stop()) return;
  log_->epoch(epoch_, test_accuracy());
}

int TrainingRun::verdict() {
  read(pending_.size());
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
  summary_.graph_nodes = graph_.kernels();
  summary_.memory = count_memory(model_, optimizer_, setup_.shard());
  summary_.memory.before = largest_over_ranks(comm, setup_.memory_before);
  summary_.memory.peak = largest_over_ranks(comm, memory_use().peak_share(comm.local_size()));

  // One late step out of a few would blame a rank that is not slow.
  constexpr std::size_t kFewestToBlame = 8;
  summary_.slowest = slowest_over_ranks(comm, times_.plain(kFewestToBlame).busy());

  // Check that the N models are still equal: compare every parameter of every rank.
  std::string difference;
  if (setup_.has_replicas()) {
    difference = first_difference(comm, model_.parameters(), stream_);
    summary_.replicas_identical = difference.empty();
  }
  const bool finite =
      summary_.print(console, times_, model_.parameters(), stream_, setup_.shard());
  const std::string wrong = !difference.empty() ? "the replicas differ, first in " + difference
                            : !finite           ? "the parameters diverged"
                                                : log_->problem();
  return console.verdict(comm.all_agree(wrong.empty()), setup_.promise(), wrong);
}

void TrainingRun::save() {
  const Stopwatch clock(summary_.between.checkpoints);
  std::vector<TensorSource> tensors = checkpoint_tensors(model_.parameters(), optimizer_);
  if (setup_.shard() != nullptr) gather_parts(tensors, *setup_.shard(), stream_);
  // One copy is enough, and two writers would damage the file.
  if (setup_.comm().rank() == 0) {
    save_checkpoint(setup_.options.checkpoint, tensors, optimizer_, position_, setup_.settings,
                    stream_);
  } else if (setup_.shard() != nullptr) {
    for (const TensorSource& tensor : tensors) tensor.get();  // sends this rank's part
  }
}

std::optional<double> TrainingRun::test_accuracy() {
  if (setup_.data.test() == nullptr) return std::nullopt;
  const Stopwatch clock(summary_.between.tests);
  if (!evaluation_) evaluation_.emplace(*setup_.data.test(), stream_);
  summary_.test_accuracy =
      dist::test_accuracy(setup_.comm(), setup_.ranks(), model_, *evaluation_);
  return summary_.test_accuracy;
}

}  // namespace dist
