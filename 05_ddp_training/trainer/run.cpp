#include "05_ddp_training/trainer/run.hpp"

#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/data_parallel/replica_check.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "common/watch.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

namespace dist {
namespace {

// Called on all ranks, each with its computing time per step. Returns the rank that the others
// had to wait for, if there is one and the times are known. All ranks get the same answer.
std::optional<Slowest> slowest_over_ranks(const Communicator& comm, double busy_ms) {
  // Each rank fills in its own element, so the sum is the complete list.
  std::vector<double> all(static_cast<std::size_t>(comm.size()), 0.0);
  all[static_cast<std::size_t>(comm.rank())] = busy_ms;
  all_reduce<double>(comm, all, ReduceOp::sum, AllReduceAlgorithm::recursive_doubling);
  if (!std::isfinite(all[0])) return std::nullopt;
  return slowest(all);
}

double ms_of(const auto& work) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  work();
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// The bytes that a rank must send in a step, on average, whatever the all-reduce algorithm:
// 2 (N - 1) / N times the gradients' bytes, where N is `ranks` (Patarasuk and Yuan, 2009). If
// the parameters are divided, they are gathered twice, and the minimum is 3 (N - 1) / N.
double least_bytes_per_rank(std::span<const Parameter> parameters, int ranks, bool divided) {
  double bytes = 0;
  for (const Parameter& parameter : parameters) {
    bytes += static_cast<double>(parameter.value.size_bytes());
  }
  return (divided ? 3.0 : 2.0) * (ranks - 1) / ranks * bytes;
}

}  // namespace

double test_accuracy(const Communicator& comm, Mlp& model, Evaluation& evaluation,
                     bool equally_many) {
  constexpr std::size_t kBatch = Evaluation::kBatch;
  const std::size_t samples = evaluation.dataset().size();
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<std::size_t> mine;
  for (std::size_t i = 0; i < samples; ++i) {
    if (i / kBatch % ranks == static_cast<std::size_t>(comm.rank())) mine.push_back(i);
  }
  const std::size_t batches = (samples + kBatch - 1) / kBatch;
  const std::size_t most = equally_many ? (batches + ranks - 1) / ranks : 0;
  std::array<std::uint64_t, 1> correct{evaluation.count_correct(model, mine, most)};
  all_reduce<std::uint64_t>(comm, correct, ReduceOp::sum,
                            AllReduceAlgorithm::recursive_doubling);
  return static_cast<double>(correct[0]) / static_cast<double>(samples);
}

TrainingRun::TrainingRun(Setup& setup, Mlp& model, Optimizer& optimizer)
    : setup_(setup),
      model_(model),
      optimizer_(optimizer),
      stream_(setup.stream()),
      schedule_(setup.schedule()),
      position_(setup.restore(model, optimizer)),
      total_steps_(setup.options.evaluate
                       ? position_.step
                       : setup.options.total_steps(position_.step, position_.epoch,
                                                   setup.steps_after(position_.taken),
                                                   setup.steps_after(0))),
      report_(setup.console(), setup.options.metrics, position_.step, total_steps_),
      graph_(stream_, setup.uses_graph()),
      numbers_(stream_.device()),
      most_pending_(stream_.device().is_cpu() ? 2 : kMostStepsInFlight) {
  if (!setup.saves()) release_stop_signals();
  optimizer.report_also(std::span(numbers_.mean.data(), numbers_.mean.size()));
  setup.data.draw(setup.options, setup.generator());
  setup.introduce(model);
  report_.run = setup.description();
  report_.clips = setup.options.optimizer.clip_norm > 0;
  report_.least_bytes =
      least_bytes_per_rank(model.parameters(), setup.comm().size(), !setup.has_replicas());
}

std::optional<std::size_t> TrainingRun::next_epoch() {
  if (position_.step >= total_steps_ || must_stop()) {
    if (report_.times.empty()) after_epoch();  // nothing was trained
    return std::nullopt;
  }
  start_clock();  // time spent earlier is not part of a step
  epoch_ = position_.epoch;
  return epoch_;
}

void TrainingRun::start_clock() {
  step_began_ = stream_.record_event();
  // These count from here: after() takes the difference.
  times_ = {.waits = -static_cast<double>(gpu_waits),
            .allocations = -static_cast<double>(gpu_allocations)};
}

void TrainingRun::step(const Batch& batch, const std::function<void()>& queue_step) {
  if (batch.place.ends_step()) optimizer_.set_next_lr(learning_rate());
  const auto run = [&] { times_.replayed = !graph_.run(batch, queue_step) || times_.replayed; };
  if (!counts_) return run();
  // The most bytes of buckets that any rank sends. None are counted if shared memory, MPI's
  // collectives or NCCL carry the buckets.
  const auto traffic = count_traffic(setup_.comm(), run, "bucket ");
  if (!traffic || traffic->messages_per_rank == 0) return;
  report_.bytes_sent = report_.bytes_sent.value_or(0) + traffic->bytes_per_rank;
}

bool TrainingRun::after(const Batch& batch, std::optional<Communication> sent) {
  times_.samples += batch.rows() * static_cast<std::size_t>(setup_.comm().size());
  times_.data += batch.waited_ms;
  if (!batch.place.ends_step()) return true;
  counts_ = false;  // all steps send the same
  times_.waits += static_cast<double>(gpu_waits);
  times_.allocations += static_cast<double>(gpu_allocations);
  pending_.push_back({.lr = learning_rate(),
                      .times = times_,
                      .sent = std::move(sent),
                      .outcome = &optimizer_.report(),
                      .begin = std::move(step_began_),
                      .optimizer_began = optimizer_.take_begin(),
                      .end = stream_.record_event()});
  position_.advance(times_.samples, batch.place.ends_epoch);
  start_clock();
  numbers_.stop.data()[0] = setup_.saves() && asked_to_stop() ? 1.0 : 0.0;
  // Most of these steps are done by now. What they report is the same on all ranks.
  if (pending_.size() == most_pending_) read(most_pending_ / 2);

  const std::size_t steps = position_.step;
  const auto is_due = [&](std::size_t every) { return every > 0 && steps % every == 0; };
  const bool compare = setup_.has_replicas() && is_due(setup_.options.check_replicas);
  const bool checkpoint = is_due(setup_.options.checkpoint_every);
  if (compare || checkpoint) {
    read(pending_.size());
    if (compare) {
      report_.between_ms.replica_checks += ms_of([&] {
        const std::string difference =
            first_difference(setup_.comm(), model_.parameters(), stream_);
        if (difference.empty()) return;
        problem_ =
            fmt::format("the replicas differ after step {}, first in {}", steps, difference);
      });
    }
    if (checkpoint && problem_.empty()) save();
    start_clock();
  }
  return steps < total_steps_ && !must_stop();
}

void TrainingRun::read(std::size_t count) {
  if (count == 0) return;
  setup_.group->synchronize(pending_[count - 1].end);
  for (; count > 0; --count) {
    read(pending_.front());
    pending_.pop_front();
  }
}

void TrainingRun::read(Pending& step) {
  step.times.step = elapsed_ms(step.begin, step.end);
  if (!step.times.replayed) {
    if (step.sent) step.times.communication = step.sent->times();
    step.times.optimizer = elapsed_ms(*step.optimizer_began, step.end);
  }
  // Shared memory can be separated from the rest of the peak only after the first all-reduce
  // has touched it (memory_use).
  if (report_.times.empty()) restart_peak();
  report_.times.add(step.times);
  const UpdateState& outcome = *step.outcome;
  stop_requested_ = stop_requested_ || outcome.stop;
  std::string culprit;  // the parameter because of which the optimizer skipped the step
  if (!outcome.is_open()) {
    culprit = model_.parameters()[static_cast<std::size_t>(outcome.culprit)].name;
  }
  if (outcome.skipped_in_a_row == UpdateState::kMostSkippedInARow && problem_.empty()) {
    problem_ =
        fmt::format("{} steps in a row had to be skipped: the gradient of {} is not finite",
                    outcome.skipped_in_a_row, culprit);
  }
  report_.step(epoch_, step.lr, outcome, culprit);
}

void TrainingRun::after_epoch() {
  read(pending_.size());
  if (must_stop()) return;
  test();
  report_.epoch(epoch_);
}

int TrainingRun::verdict() {
  read(pending_.size());
  const Console& console = setup_.console();
  if (problem_.empty() && setup_.saves()) save();
  if (!problem_.empty()) return console.verdict(false, "", problem_);
  if (position_.step < total_steps_) {
    report_.stopped(setup_.options.checkpoint);
    return kStoppedOnRequest;
  }
  const Communicator& comm = setup_.comm();
  report_.graph_nodes = graph_.kernels();
  report_.memory = setup_.memory(model_, optimizer_);
  std::array<std::uint64_t, 2> most{report_.memory.before, report_.memory.peak};
  all_reduce<std::uint64_t>(comm, most, ReduceOp::max, AllReduceAlgorithm::recursive_doubling);
  report_.memory.before = most[0];
  report_.memory.peak = most[1];
  // One late step out of a few would blame a rank that is not slow.
  constexpr std::size_t kFewestToBlame = 8;
  report_.slowest = slowest_over_ranks(comm, report_.times.plain(kFewestToBlame).busy());

  // Check that the N models are still equal: compare every parameter of every rank.
  std::string difference;
  if (setup_.has_replicas()) {
    difference = first_difference(comm, model_.parameters(), stream_);
    report_.replicas_identical = difference.empty();
  }
  std::vector<TensorSource> parameters = setup_.tensors(model_, optimizer_);
  parameters.resize(model_.parameters().size());  // without the optimizer's state
  const bool finite = report_.finish(parameters, stream_);
  const std::string wrong = !difference.empty() ? "the replicas differ, first in " + difference
                            : !finite           ? "the parameters diverged"
                                                : report_.problem();
  return console.verdict(comm.all_agree(wrong.empty()), setup_.promise(), wrong);
}

void TrainingRun::save() {
  report_.between_ms.checkpoints += ms_of([&] {
    // Each rank tests what it updates. Nothing could resume from numbers that are not finite.
    const bool finite =
        all_finite(optimizer_.parameters(), stream_) && all_finite(optimizer_.state(), stream_);
    if (!setup_.comm().all_agree(finite)) {
      problem_ = fmt::format("training diverged by step {}, so {} was not written",
                             position_.step, setup_.options.checkpoint);
      return;
    }
    const std::vector<TensorSource> tensors = setup_.tensors(model_, optimizer_);
    // One copy is enough, and two writers would damage the file.
    if (setup_.comm().rank() == 0) {
      save_checkpoint(setup_.options.checkpoint, tensors, optimizer_, position_,
                      setup_.settings, stream_);
    } else {
      for (const TensorSource& tensor : tensors)
        tensor.get();  // sends this rank's part, if any
    }
  });
}

void TrainingRun::test() {
  if (setup_.data.test() == nullptr) return;
  report_.between_ms.tests += ms_of([&] {
    if (!evaluation_) evaluation_ = std::make_shared<Evaluation>(*setup_.data.test(), stream_);
    report_.test_accuracy =
        test_accuracy(setup_.comm(), model_, *evaluation_, !setup_.has_replicas());
  });
}

}  // namespace dist
