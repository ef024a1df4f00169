#include "05_ddp_training/trainer/trainer.hpp"

#include "05_ddp_training/data_parallel/replica_check.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "05_ddp_training/trainer/guards.hpp"
#include "05_ddp_training/trainer/report.hpp"
#include "common/watch.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace dist {

// The bytes that a rank must send in a step, on average, whatever the all-reduce algorithm:
// 2 (N - 1) / N times the gradients' bytes, where N is `ranks` (Patarasuk and Yuan, 2009). If
// the parameters are divided, they are gathered twice, and the minimum is 3 (N - 1) / N.
static double least_bytes_per_rank(const Module& model, int ranks, bool divided) {
  const auto bytes = static_cast<double>(model.count() * sizeof(float));
  return (divided ? 3.0 : 2.0) * (ranks - 1) / ranks * bytes;
}

// What is known of a step when it is queued, and marks from which its times are read later.
struct Trainer::Step {
  double lr = 0;
  StepTimes times{};
  Event begin{};
  std::vector<std::pair<Event, Event>> data{};  // of each batch: the wait for it, from and to
  std::optional<Event> optimizer_began{};
  Event end{};
  std::vector<std::unique_ptr<Work>> works{};
  const UpdateState* update = nullptr;
  const StepNumbers* numbers = nullptr;  // the copy of numbers_
  // Calls of CUDA (common/stream.hpp) before it began.
  double waits = static_cast<double>(gpu_waits);
  double allocations = static_cast<double>(gpu_allocations);
};

Trainer::Trainer(const TrainingPlan& plan, Module& model, ProcessGroup& group,
                 DataParallel& ddp, Optimizer& optimizer, CrossEntropyLoss& loss)
    : plan_(plan),
      model_(model),
      group_(group),
      ddp_(ddp),
      optimizer_(optimizer),
      comm_(plan.program().comm),
      stream_(plan.program().stream),
      position_(plan.resume(ddp, optimizer)),
      total_steps_(plan.total_steps(position_)),
      report_(std::make_unique<Report>(plan.program().console, plan.options(), position_.step,
                                       total_steps_)),
      numbers_(1, stream_.device()),
      host_numbers_(kMostStepsInFlight, stream_.device(), Memory::pinned),
      asked_(1, stream_.device(), Memory::pinned),
      most_in_flight_(stream_.device().is_cpu() ? 2 : kMostStepsInFlight),
      graph_(stream_, plan.uses_graph()) {
  if (const Dataset* data = plan.data().test()) {
    evaluation_ = std::make_unique<Evaluation>(*data, stream_);
  }
  asked_.data()[0] = 1;
  loss.write_to(&numbers_.data()->loss);
  optimizer.write_divergence_to(&numbers_.data()->diverged);
  ddp.carry({&numbers_.data()->loss, sizeof(StepNumbers) / sizeof(double)});
  plan.introduce(model, group);
  RunSummary& summary = report_->summary;
  summary.device = to_string(stream_.device());
  summary.ranks = comm_.size();
  summary.backend = to_string(plan.backend());
  summary.overlaps = group.overlaps();
  summary.least_bytes = least_bytes_per_rank(model, comm_.size(), !plan.has_replicas());
  // The earlier run may have ended between an epoch's last step and its test.
  if (position_.epoch > 0 && position_.taken == 0 && !comm_.all_agree(!report_->lacks_test())) {
    test();
    report_->test(position_.epoch - 1);
  }
}

Trainer::~Trainer() = default;

std::optional<std::size_t> Trainer::next_epoch() {
  if (position_.step >= total_steps_ || must_stop()) {
    if (report_->times().empty()) end_epoch();  // nothing was trained
    return std::nullopt;
  }
  start_clock();  // time spent earlier is not part of a step
  epoch_ = position_.epoch;
  epoch_is_whole_ = position_.taken == 0;
  return epoch_;
}

void Trainer::start_clock() {
  step_ = std::make_unique<Step>();
  step_->begin = mark_ = stream_.record_event();
}

bool Trainer::step(const Batch& batch, const std::function<void()>& queue_work) {
  step_->data.emplace_back(mark_, stream_.record_event());
  step_->times.samples += batch.rows() * static_cast<std::size_t>(comm_.size());
  if (batch.place.ends_step()) {
    // Skipped steps count as steps of the schedule.
    step_->lr = plan_.lr_at(position_.step);
    optimizer_.set_next_lr(step_->lr);
    if (plan_.saves() && asked_to_stop()) {
      copy_bytes(stream_, &numbers_.data()->stop, asked_.data(), asked_.size_bytes());
    }
  }
  queue(batch, queue_work);
  if (batch.place.ends_step()) {
    end_step(batch);
    between_steps();
  }
  mark_ = stream_.record_event();
  return position_.step < total_steps_ && !must_stop();
}

void Trainer::end_step(const Batch& batch) {
  StepNumbers* const copy = host_numbers_.data() + position_.step % kMostStepsInFlight;
  copy_bytes(stream_, copy, numbers_.data(), sizeof *copy);
  step_->numbers = copy;
  step_->update = &optimizer_.report();
  if (!step_->times.replayed) {
    step_->works = ddp_.take_works();
    step_->optimizer_began = optimizer_.take_begin();
  }
  step_->end = stream_.record_event();
  step_->times.waits = static_cast<double>(gpu_waits) - step_->waits;
  step_->times.allocations = static_cast<double>(gpu_allocations) - step_->allocations;
  position_.advance(step_->times.samples, batch.place.ends_epoch);
  in_flight_.push_back(std::move(step_));
  counts_ = false;  // all steps send the same
  start_clock();
}

void Trainer::queue(const Batch& batch, const std::function<void()>& queue_work) {
  const auto run = [&] { step_->times.replayed |= !graph_.run(batch, queue_work); };
  if (!counts_) return run();
  // The most bytes of buckets that any rank sends. None are counted if shared memory, MPI's
  // collectives or NCCL carry the buckets.
  const auto traffic = count_traffic(comm_, run, "bucket ");
  if (!traffic || traffic->messages_per_rank == 0) return;
  report_->summary.bytes_sent =
      report_->summary.bytes_sent.value_or(0) + traffic->bytes_per_rank;
}

void Trainer::read(std::size_t count) {
  while (count > 0) {
    // Even a wait that is already over takes microseconds, so one serves all. But the watch
    // would take one of --timeout seconds for a hang, so slow steps get one each.
    constexpr double kSlow_ms = 1000;
    const std::size_t some = last_step_ms_ < kSlow_ms ? count : 1;
    group_.synchronize(in_flight_[some - 1]->end);
    for (std::size_t i = 0; i < some; ++i) {
      read(*in_flight_.front());
      in_flight_.pop_front();
    }
    count -= some;
  }
}

void Trainer::read(Step& step) {
  StepTimes& times = step.times;
  times.step = last_step_ms_ = elapsed_ms(step.begin, step.end);
  for (const auto& [from, to] : step.data) times.data += elapsed_ms(from, to);
  if (!times.replayed) {
    times.add(step.works, group_.overlaps());
    times.optimizer = elapsed_ms(*step.optimizer_began, step.end);
  }
  // Shared memory can be separated from the rest of the peak only after the first all-reduce
  // has touched it (memory_use).
  if (report_->times().empty()) restart_peak();
  const double loss = step.numbers->loss, stop = step.numbers->stop;
  stop_requested_ = stop_requested_ || stop > 0;  // a mean above 0: some rank was asked
  const UpdateState& update = *step.update;
  std::string culprit;  // the parameter because of which the optimizer skipped the step
  if (!update.is_open()) {
    culprit = model_.parameters()[static_cast<std::size_t>(update.culprit)].name;
  }
  if (update.skipped_in_a_row == UpdateState::kMostSkippedInARow && problem_.empty()) {
    problem_ =
        fmt::format("{} steps in a row had to be skipped: the gradient of {} is not finite",
                    update.skipped_in_a_row, culprit);
  }
  report_->step(epoch_, step.lr, loss, update, culprit, times);
  if (update.diverged && problem_.empty()) problem_ = what_diverged();
}

// Called on all ranks; all get the same sentence.
std::string Trainer::what_diverged() const {
  const std::span<const Parameter> mine = optimizer_.parameters();
  const auto places = comm_.all_gather(first_not_finite(mine, stream_).value_or(mine.size()));
  const std::size_t first = std::ranges::min(places);
  if (first == mine.size()) return "";
  return fmt::format("the parameters diverged: {} has a number that is not finite",
                     mine[first].name);
}

void Trainer::end_epoch() {
  read(in_flight_.size());
  if (must_stop()) return;
  test();
  const bool is_over = position_.epoch > epoch_;
  report_->epoch(epoch_, !is_over          ? Report::Epoch::unfinished
                         : epoch_is_whole_ ? Report::Epoch::whole
                                           : Report::Epoch::resumed);
}

// Called on all ranks.
void Trainer::find_slow_rank() {
  // A rank that a quota pauses is late through no work of its own.
  CpuQuota quota = cpu_quota();
  quota.periods -= quota_before_.periods;
  quota.paused_periods -= quota_before_.paused_periods;
  const std::vector<CpuQuota> quotas = comm_.all_gather(quota);
  const auto most = std::ranges::max_element(quotas, {}, &CpuQuota::paused_periods);
  RunSummary& summary = report_->summary;
  if (most->paused_periods > 0 && most->paused_periods >= most->periods / 10) {
    summary.paused = {static_cast<std::size_t>(most - quotas.begin()), *most};
  }
  // One late step out of a few would blame a rank that is not slow.
  constexpr std::size_t kFewestToBlame = 8;
  const auto busy = comm_.all_gather(report_->times().plain(kFewestToBlame).busy());
  if (!summary.paused && std::isfinite(busy[0])) summary.slowest = slowest(busy);
}

double Trainer::samples_per_second() const {
  return report_->times().samples_per_second();
}

int Trainer::verdict() {
  return verdict(Json::object());
}

int Trainer::verdict(const Json& more) {
  read(in_flight_.size());
  const Console& console = plan_.program().console;
  if (problem_.empty() && plan_.saves()) save();
  if (!problem_.empty()) return console.verdict(comm_, false, "", problem_);
  if (position_.step < total_steps_) {
    report_->stopped(plan_.options().checkpoint);
    return kStoppedOnRequest;
  }
  RunSummary& summary = report_->summary;
  summary.graph_nodes = graph_.kernels();
  summary.memory = count_memory(model_, optimizer_, ddp_.kept());
  summary.memory.before = std::ranges::max(comm_.all_gather(plan_.memory_before()));
  summary.memory.peak = std::ranges::max(comm_.all_gather(memory_use(comm_.local_size()).peak));
  find_slow_rank();

  // Check that the N models are still equal: compare every parameter of every rank.
  std::string difference;
  if (plan_.has_replicas()) {
    difference = first_difference(comm_, model_.parameters(), stream_);
    summary.replicas_identical = difference.empty();
  }
  std::vector<TensorSource> parameters = tensors();
  parameters.resize(model_.parameters().size());  // without the optimizer's state
  const bool finite = report_->finish(parameters, stream_, more);
  const std::string wrong = !difference.empty() ? "the replicas differ, first in " + difference
                            : !finite           ? "the parameters diverged"
                            : !report_->problem().empty() ? report_->problem()
                                                          : learned_nothing();
  return console.verdict(comm_, wrong.empty(),
                         plan_.has_replicas()
                             ? "the same parameters, bit for bit, on every rank"
                             : "all parameters are finite, and each is on one rank",
                         wrong);
}

}  // namespace dist
