#include "05_ddp_training/trainer/training_plan.hpp"

#include "02_broadcast/broadcast.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/one_host/host_memory.hpp"
#include "05_ddp_training/deterministic/deterministic_data_parallel.hpp"
#include "05_ddp_training/explain/explain.hpp"
#include "05_ddp_training/model/gemm.hpp"
#include "05_ddp_training/model/kernels.hpp"
#include "05_ddp_training/optimizer/lr_schedule.hpp"
#include "05_ddp_training/sharding/sharded_data_parallel.hpp"
#include "05_ddp_training/trainer/guards.hpp"
#include "05_ddp_training/trainer/memory.hpp"
#include "common/join.hpp"
#include "common/physical_memory.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <sched.h>
#include <thread>

namespace dist {

static ShardLevel shard_level(const std::string& name) {
  if (name == "optimizer") return ShardLevel::optimizer;
  return name == "gradients" ? ShardLevel::gradients : ShardLevel::parameters;
}

// Whether collectives get their own thread: if `request` is unset, only where each rank has
// more cores than its `threads`; elsewhere, another thread would only slow the ranks down.
// Called on all ranks; all get the same result.
static bool choose_overlap(std::optional<bool> request, Backend backend,
                           const Communicator& comm, int threads) {
  if (backend == Backend::nccl) return true;
  if (request) return *request;
  if (comm.size() == 1) return false;
  const int all = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  // Ranks that mpirun binds have their cores to themselves; unbound ranks share all cores.
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return comm.all_agree(cores < all ? cores > threads : cores > comm.local_size() * threads);
}

static VirtualRanks virtual_ranks(const Options& options, const Communicator& comm) {
  if (!options.deterministic) return VirtualRanks(comm);
  constexpr int kRanks = VirtualRanks::kCount;
  const auto processes = static_cast<unsigned>(comm.size());
  check_usage(processes <= kRanks && std::has_single_bit(processes),
              "--deterministic: the {} virtual ranks need 1, 2, 4 or 8 processes, not {}",
              kRanks, processes);
  const std::size_t batch = options.batch_size * processes;
  check_usage(batch % kRanks == 0,
              "--deterministic: a batch of {} over all ranks ({}) is not divisible by {}",
              batch, options.global_batch > 0 ? "--global-batch" : "--batch-size times ranks",
              kRanks);
  return {kRanks, comm.size(), comm.rank()};
}

TrainingPlan::TrainingPlan()
    : program_("ddp_training", "Lesson 5: N processes train one model.", why_no_kernel),
      ranks_(program_.comm) {
  CommandLine& flags = program_.flags;
  options_.declare(flags, program_.common, program_.comm.size(), program_.comm.rank() == 0);
  flags.check([this] { check(); });
  flags.check_together([this] { check_together(); });
}

std::optional<int> TrainingPlan::start(int argc, char** argv) {
  if (const auto exit = program_.start(argc, argv)) return exit;
  if (!saves()) release_stop_signals();
  memory_before_ = memory_use(program_.comm.local_size()).now;
  if (!options_.explain) return std::nullopt;
  return explain(program_, *make_group());
}

void TrainingPlan::check() {
  const Communicator& comm = program_.comm;
  if (options_.algorithm == "shared-memory") require_host_memory("--algorithm", comm);
  ranks_ = virtual_ranks(options_, comm);
  if (precision() == Precision::bf16) {
    const std::string why = why_no_bf16(program_.device.device);
    check_usage(why.empty(), "--precision: {}", why);
  }
  data_.load(options_, program_.flags, comm.size(), ranks_.per_process());
  require_inputs_kept();
  require_memory_for_model();
  values_ = program_.flags.values();
  for (auto& value : data_.hashes(options_)) values_.push_back(std::move(value));
  const auto processes = static_cast<std::size_t>(comm.size());
  settings_ = run_settings(values_, to_string(program_.device.device), processes,
                           processes * options_.batch_size * options_.accumulate);
  if (comm.rank() == 0) read_start();
}

void TrainingPlan::check_together() {
  const Communicator& comm = program_.comm;
  require_agreement(comm, values_);
  backend_ = choose_backend(options_.backend, comm, program_.device.device);
  check_usage(options_.pretend_link == 0 || backend_.backend != Backend::nccl,
              "--pretend-link: needs --backend ours or mpi, not nccl");
  // NCCL's all-reduce takes tens of microseconds at any size, so fewer buckets are better.
  if (backend_.backend == Backend::nccl && !program_.flags.given("--bucket-cap-mb")) {
    options_.bucket_cap_mb = 25;
  }
  options_.overlap =
      choose_overlap(options_.overlap, backend_.backend, comm, program_.common.threads);
}

// Refuses sizes that no allocation could satisfy, before anything is made.
void TrainingPlan::require_memory_for_model() const {
  double parameters = 0, activations = 0;
  for (std::size_t i = 0; i + 1 < options_.layers.size(); ++i) {
    const auto in = static_cast<double>(options_.layers[i]);
    const auto out = static_cast<double>(options_.layers[i + 1]);
    parameters += (in + 1) * out;
    activations += in + out;
  }
  const double batch = static_cast<double>(batches().size) * activations;
  if (!program_.device.device.is_cpu()) return;  // cudaMalloc says how much a GPU has
  require_memory("--layers", 2 * parameters * sizeof(float), "the parameters and gradients");
  require_memory(options_.global_batch > 0 ? "--global-batch" : "--batch-size",
                 batch * sizeof(float), "a batch's activations");
}

// Refuses to write where the run reads, by whatever name. A run may continue its own checkpoint
// or replace the file that it starts from, but nothing else.
void TrainingPlan::require_inputs_kept() {
  struct Named {
    std::string flag, file;
  };
  std::vector<Named> inputs{{"--init", options_.init},
                            {"--resume", options_.resume ? options_.checkpoint : ""}};
  for (const std::string& file : data_.files()) inputs.push_back({"--data", file});
  const std::vector<Named> outputs{
      {"--checkpoint", options_.evaluate ? "" : options_.checkpoint},
      {"--metrics", options_.metrics},
      {"--trace", program_.flags.text_given("--trace")}};
  for (const auto& [reads, input] : inputs) {
    for (const auto& [writes, output] : outputs) {
      std::error_code not_there;
      if (!std::filesystem::equivalent(input, output, not_there)) continue;
      const bool is_allowed = writes == "--checkpoint" && reads != "--data";
      check_usage(is_allowed, "{}: {} is a file that {} reads; choose another name", writes,
                  output, reads);
      replaces_start_ = true;
    }
  }
}

// Refuses a file with other parameters than those of this model, and names the flag that fits.
static void require_layers(const Checkpoint& file, const std::vector<std::size_t>& layers) {
  try {
    file.require_parameters(parameter_shapes(layers));
  } catch (const Error& error) {
    const std::vector<std::size_t> widths = widths_of(file.parameters());
    if (widths.empty() || widths == layers) throw;
    throw Error(fmt::format("{}; --layers {} fits", error.what(), join(widths, ",")));
  }
}

// Reads the file of --init or --resume, and compares it with this run.
void TrainingPlan::read_start() {
  if (!options_.resume && options_.init.empty()) return;
  const std::string& path = options_.resume ? options_.checkpoint : options_.init;
  const char* flag = options_.resume ? "--resume" : "--init";
  std::error_code problem;
  check_usage(std::filesystem::exists(path, problem), "{}: there is no file {}", flag, path);
  try {
    file_.emplace(path);
    require_layers(*file_, options_.layers);
    file_->require_finite(/*with_state=*/options_.resume);
    notes_ = {fmt::format("parameters of {}", path)};
    if (!file_->prefix().empty()) notes_[0] += ", without the prefix " + file_->prefix();
    if (replaces_start_) notes_[0] += "; --checkpoint replaces this file";
    if (const std::string changed = file_->changed(); !changed.empty()) {
      notes_.push_back("note: " + changed);
    }
    if (!options_.resume) return;
    position_ = file_->position(data_.size());
    notes_ = {fmt::format("continues {} after step {}", path, position_.step)};
    for (const std::string& note : file_->require_same_run(settings_, options_.deterministic)) {
      notes_.push_back(note);
    }
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", flag, error.what()));
  }
}

Mlp TrainingPlan::make_model() {
  Generator generator(program_.common.seed);
  Mlp model(options_.layers, generator, program_.stream, precision());
  if (file_) file_->restore(model.parameters(), program_.stream);
  data_.draw(options_, generator);
  return model;
}

std::unique_ptr<ProcessGroup> TrainingPlan::make_group() const {
  return make_process_group(backend_.backend, program_.comm, program_.device.device,
                            kAllReduceAlgorithms.at(options_.algorithm), *options_.overlap,
                            options_.pretend_link, backend_.nccl);
}

std::unique_ptr<DataParallel> TrainingPlan::make_data_parallel(Mlp& model,
                                                               ProcessGroup& group) const {
  const Stream& stream = program_.stream;
  const BucketCaps caps{
      .first_bytes = static_cast<std::size_t>(options_.first_bucket_mb * 0x1p20),
      .bytes = static_cast<std::size_t>(options_.bucket_cap_mb * 0x1p20)};
  if (options_.deterministic) {
    return std::make_unique<DeterministicDataParallel>(model, group, stream, ranks_);
  }
  if (options_.shard != "none") {
    return std::make_unique<ShardedDataParallel>(model, group, stream,
                                                 shard_level(options_.shard), caps);
  }
  return std::make_unique<DistributedDataParallel>(model, group, stream, caps);
}

BatchPlan TrainingPlan::batches() const {
  return {options_.batch_size / ranks_.per_process(), options_.loader_drop_last,
          options_.accumulate};
}

std::size_t TrainingPlan::steps_after(std::size_t taken) const {
  const DistributedSampler sampler(data_.size(), ranks_.count(), 0, options_.sampler);
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
  return batches_in_turn(data_.size(), ranks_, batches(), options_.sampler, epoch, taken);
}

double TrainingPlan::lr_at(std::size_t step) const {
  const OptimizerOptions& optimizer = options_.optimizer;
  if (!options_.scale_lr) return warmed_up(optimizer.lr, optimizer.warmup_steps).at(step);
  return linearly_scaled(optimizer.lr, ranks_.count(), optimizer.warmup_steps).at(step);
}

Position TrainingPlan::resume(const DataParallel& ddp, Optimizer& optimizer) const {
  if (!options_.resume) return {};
  const Communicator& comm = program_.comm;
  std::array<std::uint64_t, 4> numbers{position_.step, position_.epoch, position_.taken,
                                       file_ ? file_->optimizer_steps() : 0};
  broadcast<std::uint64_t>(comm, numbers, 0);
  optimizer.set_steps(numbers[3], program_.stream);
  const std::vector<ParameterShape> parameters = parameter_shapes(options_.layers);
  for (std::size_t s = 0; s < optimizer.state().size(); ++s) {
    const Optimizer::State& state = optimizer.state()[s];
    const std::size_t p = s % parameters.size();
    const Shape& shape = parameters[p].shape;
    const Tensor whole = file_ ? file_->state(state.name, shape) : Tensor(shape, Device{});
    broadcast<float>(comm, whole.span(), 0);
    ddp.keep_part(p, whole, state.value, program_.stream);
  }
  Position position{.step = numbers[0], .epoch = numbers[1], .taken = numbers[2]};
  // With a different number of ranks, too few samples may be left for a step.
  if (steps_after(position.taken) == 0) position.start_next_epoch();
  return position;
}

void TrainingPlan::introduce(const Module& model, const ProcessGroup& group) const {
  const int size = program_.comm.size();
  const Console& console = program_.console;
  const BatchPlan plan = batches();
  const DistributedSampler sampler(data_.size(), ranks_.count(), /*rank=*/0, options_.sampler);
  console.line("{} rank{}, model {} on {} ({}){}", size, size == 1 ? "" : "s",
               join(options_.layers, "-"), to_string(program_.device.device),
               program_.device.reason,
               precision() == Precision::bf16 ? ", products in bf16" : "");
  auto gradients = fmt::format("gradients by {}: {}", group.description(), backend_.reason);
  if (options_.deterministic) gradients = cost_of_determinism(ranks_, plan.size, model);
  if (options_.shard != "none") {
    gradients += "; each rank keeps a part (--shard " + options_.shard + ")";
  }
  console.line(gradients);
  console.line("{}: {} samples, {} per rank{}, in batches of {} x {} = {}", options_.dataset,
               data_.size(), sampler.num_samples() * ranks_.per_process(),
               sampler.total_size() > data_.size() ? " (padded)" : "", size,
               options_.batch_size, static_cast<std::size_t>(size) * options_.batch_size);
  for (const std::string& note : notes_) console.line(printable(note));
}

}  // namespace dist
