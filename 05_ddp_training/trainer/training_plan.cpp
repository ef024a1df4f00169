#include "05_ddp_training/trainer/training_plan.hpp"

#include "05_ddp_training/deterministic/deterministic_data_parallel.hpp"
#include "05_ddp_training/explain/explain.hpp"
#include "05_ddp_training/model/gemm.hpp"
#include "05_ddp_training/model/kernels.hpp"
#include "05_ddp_training/trainer/guards.hpp"
#include "05_ddp_training/trainer/memory.hpp"
#include "common/physical_memory.hpp"
#include "common/random.hpp"

#include <algorithm>

namespace dist {

TrainingPlan::TrainingPlan(Task& task)
    : task_(task),
      program_(task.program(), task.description(), why_no_kernel),
      parallelism_(program_, options_) {
  CommandLine& flags = program_.flags;
  task.declare(options_, flags, program_.common, program_.comm.size(),
               program_.comm.rank() == 0);
  flags.check([this] { check(); });
  flags.check_together([this] {
    require_agreement(program_.comm, values_);
    parallelism_.check_together();
  });
}

std::optional<int> TrainingPlan::start(int argc, char** argv) {
  if (const auto exit = program_.start(argc, argv)) return exit;
  use_matmul_library(program_.stream, options_.matmul);
  if (!saves()) release_stop_signals();
  memory_before_ = memory_use(program_.comm.local_size()).now;
  if (!options_.explain) return std::nullopt;
  return explain(program_, *make_group());
}

void TrainingPlan::check() {
  const Communicator& comm = program_.comm;
  parallelism_.check();
  if (precision() == Precision::bf16) {
    const std::string why = why_no_bf16(program_.device.device);
    check_usage(why.empty(), "--precision: {}", why);
    const bool can = options_.matmul == MatmulLibrary::automatic ||
                     options_.matmul == MatmulLibrary::onednn ||
                     !program_.device.device.is_cpu();
    check_usage(can, "--matmul: {} has no products in bf16, and oneDNN has",
                kMatmulLibraries.of(options_.matmul));
  }
  TrainingData& data = task_.data();
  data.load(options_, task_.model(), program_.flags, comm.size(),
            parallelism_.ranks().per_process());
  const bool replaces = replaces_start(program_.flags, options_, data.flag(), data.files());
  require_memory_for_model();
  values_ = program_.flags.values();
  for (auto& value : data.hashes(options_)) values_.push_back(std::move(value));
  const std::string schedule = task_.schedule(options_);
  if (!schedule.empty()) values_.push_back({"schedule", schedule});
  if (options_.deterministic && program_.device.device.is_cpu()) {
    const std::string products = describe_matmul(options_.matmul);
    values_.push_back({"--deterministic: products", products, Effect::rounding, products});
  }
  const auto processes = static_cast<std::size_t>(comm.size());
  settings_ = run_settings(values_, to_string(program_.device.device), processes,
                           processes * options_.batch_size * options_.accumulate);
  if (comm.rank() == 0) start_.read(options_, model(), settings_, data.size(), replaces);
}

// Refuses sizes that no allocation could satisfy, before anything is made.
void TrainingPlan::require_memory_for_model() const {
  if (!program_.device.device.is_cpu()) return;  // cudaMalloc says how much a GPU has
  double parameters = 0;
  for (const ParameterShape& parameter : model().parameters()) {
    double count = 1;
    for (const std::size_t extent : parameter.shape) count *= static_cast<double>(extent);
    parameters += count;
  }
  require_memory(model().flag(), 2 * parameters * sizeof(float),
                 "the parameters and gradients");
  const auto rows = static_cast<double>(batches().size);
  require_memory(options_.global_batch > 0 ? "--global-batch" : "--batch-size",
                 rows * static_cast<double>(model().activations()) * sizeof(float),
                 "a batch's activations");
}

std::unique_ptr<Module> TrainingPlan::make_model() {
  Generator generator(program_.common.seed);
  auto made = model().make(generator, program_.stream, precision());
  start_.restore(*made, program_.stream);
  task_.data().draw(options_, model().inputs(), generator);
  return made;
}

BatchPlan TrainingPlan::batches() const {
  return {options_.batch_size / parallelism_.ranks().per_process(), options_.loader_drop_last,
          options_.accumulate};
}

std::size_t TrainingPlan::steps_after(std::size_t taken) const {
  const DistributedSampler sampler(data().size(), parallelism_.ranks().count(), 0,
                                   options_.sampler);
  return batches().steps(sampler.indices_after(taken).size());
}

std::size_t TrainingPlan::total_steps(const Position& begin) const {
  // A run that has already finished all its epochs or steps takes no more steps.
  if (options_.evaluate || begin.epoch >= options_.epochs) return begin.step;
  const std::size_t all = begin.step + steps_after(begin.taken) +
                          (options_.epochs - begin.epoch - 1) * steps_after(0);
  if (options_.max_steps == 0) return all;
  return std::max(begin.step, std::min(all, options_.max_steps));
}

std::vector<BatchSamples> TrainingPlan::batches_after(const DistributedSampler& sampler,
                                                      std::size_t epoch,
                                                      std::size_t taken) const {
  if (!options_.deterministic) return batches().divide(sampler.indices_after(taken));
  return batches_in_turn(data().size(), parallelism_.ranks(), batches(), options_.sampler,
                         epoch, taken);
}

Position TrainingPlan::resume(const DataParallel& ddp, Optimizer& optimizer) const {
  Position position =
      start_.resume(options_, model(), program_.comm, ddp, optimizer, program_.stream);
  // With a different number of ranks, too few samples may be left for a step.
  if (options_.resume && steps_after(position.taken) == 0) position.start_next_epoch();
  return position;
}

void TrainingPlan::introduce(const Module& model, const ProcessGroup& group) const {
  const int size = program_.comm.size();
  const Console& console = program_.console;
  const BatchPlan plan = batches();
  const DistributedSampler sampler(data().size(), parallelism_.ranks().count(), /*rank=*/0,
                                   options_.sampler);
  console.line("{} rank{}, model {} on {} ({}){}", size, size == 1 ? "" : "s",
               task_.model().name(), to_string(program_.device.device), program_.device.reason,
               precision() == Precision::bf16 ? ", products in bf16" : "");
  auto gradients =
      fmt::format("gradients by {}: {}", group.description(), parallelism_.why_this_backend());
  if (options_.deterministic)
    gradients = cost_of_determinism(parallelism_.ranks(), plan.size, model);
  if (options_.shard != "none") {
    gradients += "; each rank keeps a part (--shard " + options_.shard + ")";
  }
  console.line(gradients);
  const std::size_t batch = static_cast<std::size_t>(size) * options_.batch_size;
  const std::size_t parts = options_.accumulate;
  console.line(
      "{}: {} samples, {} per rank{}, in batches of {} x {} = {}{}", data().name(options_),
      data().size(), sampler.num_samples() * parallelism_.ranks().per_process(),
      sampler.total_size() > data().size() ? " (padded)" : "", size, options_.batch_size, batch,
      parts > 1 ? fmt::format(", {} to a step of {}", parts, parts * batch) : "");
  for (const std::string& note : start_.notes()) console.line(printable(note));
}

}  // namespace dist
