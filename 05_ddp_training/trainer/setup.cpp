#include "05_ddp_training/trainer/setup.hpp"

#include "02_broadcast/broadcast.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/one_host/host_memory.hpp"
#include "05_ddp_training/deterministic/deterministic_data_parallel.hpp"
#include "05_ddp_training/explain/explain.hpp"
#include "05_ddp_training/model/gemm.hpp"
#include "05_ddp_training/model/kernels.hpp"
#include "05_ddp_training/sharding/sharded_data_parallel.hpp"
#include "05_ddp_training/sharding/sharded_optimizer.hpp"
#include "05_ddp_training/trainer/guards.hpp"
#include "common/join.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <filesystem>

namespace dist {

// What the flags choose, and what only some choices need.
struct Setup::Chosen {
  VirtualRanks ranks;  // one, or with --deterministic several
  BackendChoice backend{};
  std::optional<Shard> shard{};
  ShardedOptimizer* sharded_optimizer = nullptr;
};

namespace {

ShardLevel shard_level(const Options& options) {
  if (options.shard == "optimizer") return ShardLevel::optimizer;
  if (options.shard == "gradients") return ShardLevel::gradients;
  return options.shard == "parameters" ? ShardLevel::parameters : ShardLevel::none;
}

BucketCaps bucket_caps(const Options& options) {
  return {.first_bytes = static_cast<std::size_t>(options.first_bucket_mb * 0x1p20),
          .bytes = static_cast<std::size_t>(options.bucket_cap_mb * 0x1p20)};
}

// The ranks that this process plays: itself or, with --deterministic, several virtual ones.
VirtualRanks played_ranks(const Options& options, const Communicator& comm) {
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

}  // namespace

std::optional<int> Setup::read(int argc, char** argv) {
  const bool root = comm_.rank() == 0;
  CommandLine command_line("ddp_training", "Lesson 5: N processes train one model.");
  options.declare(command_line, comm_.size(), /*writes=*/root);
  std::vector<CommandLine::Value> values;
  command_line.check([&] {
    if (options.algorithm == "shared-memory") require_host_memory("--algorithm", comm_);
    chosen_ = std::make_shared<Chosen>(played_ranks(options, comm_));
    device_ = choose_device(options.common.device, comm_.local_rank(), why_no_kernel);
    if (precision() == Precision::bf16) {
      const std::string why = why_no_bf16(device());
      check_usage(why.empty(), "--precision: {}", why);
    }
    data.load(options, command_line, comm_.size(), chosen_->ranks.per_process());
    values = command_line.values();
    for (auto& value : data.fingerprints(options)) values.push_back(std::move(value));
    const auto processes = static_cast<std::size_t>(comm_.size());
    settings = run_settings(values, to_string(device()), processes,
                            processes * options.batch_size * options.accumulate);
    if (root) read_start();
  });
  command_line.check_together([&] {
    require_agreement(comm_, values);
    chosen_->backend = choose_backend(options.backend, comm_, device());
    check_usage(options.pretend_link == 0 || chosen_->backend.backend != Backend::nccl,
                "--pretend-link: needs --backend ours or mpi, not nccl");
    // NCCL's all-reduce takes tens of microseconds at any size, so fewer buckets are better.
    if (chosen_->backend.backend == Backend::nccl && !command_line.given("--bucket-cap-mb")) {
      options.bucket_cap_mb = 25;
    }
  });
  if (const auto exit = parse(command_line, comm_, argc, argv)) return exit;

  console_.emplace(options.common.json, root);
  stream_.emplace(device(), options.common.threads);
  generator_.emplace(options.common.seed);
  memory_before_ = memory_use(comm_.local_size()).now;
  options.overlap =
      choose_overlap(options.overlap, chosen_->backend.backend, comm_, options.common.threads);
  if (!options.explain) return std::nullopt;
  return explain(comm_, *console_, *make_group(), *stream_, device_.reason);
}

// Reads the file of --init or --resume, and compares it with this run.
void Setup::read_start() {
  if (!options.resume && options.init.empty()) return;
  const std::string& path = options.resume ? options.checkpoint : options.init;
  const char* flag = options.resume ? "--resume" : "--init";
  std::error_code problem;
  check_usage(std::filesystem::exists(path, problem), "{}: there is no file {}", flag, path);
  try {
    file_.emplace(path);
    file_->require_parameters(options.layers);
    file_->require_finite(/*with_state=*/options.resume);
    notes_ = {fmt::format("parameters of {}", path)};
    if (!file_->prefix().empty()) notes_[0] += ", without the prefix " + file_->prefix();
    if (!options.resume) return;
    position_ = file_->position(data.size());
    notes_ = {printable(fmt::format("continues {} after step {}", path, position_.step))};
    for (const std::string& note : file_->require_same_run(settings, options.deterministic)) {
      notes_.push_back(printable(note));
    }
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", flag, error.what()));
  }
}

std::unique_ptr<Optimizer> Setup::make_optimizer(Mlp& model) {
  const BucketCaps caps = bucket_caps(options);
  if (const ShardLevel level = shard_level(options); level != ShardLevel::none) {
    Shard& shard = chosen_->shard.emplace(level, model.parameters(), caps, comm_);
    auto made = std::make_unique<ShardedOptimizer>(options.optimizer, shard, stream());
    chosen_->sharded_optimizer = made.get();
    return made;
  }
  auto made = dist::make_optimizer(options.optimizer, model.parameters(), stream());
  if (options.optimizer.clip_norm > 0) {
    // The squares are added up chunk by chunk, as if every rank had its part of them.
    const int chunks = options.deterministic ? 1 : comm_.size();
    made->clip({norm_ranges(model.parameters(), caps, chunks), chunks,
                /*is_exchanged=*/false, stream()});
  }
  return made;
}

std::unique_ptr<ProcessGroup> Setup::make_group() {
  auto made = make_process_group(chosen_->backend.backend, comm_, device(),
                                 kAllReduceAlgorithms.at(options.algorithm), *options.overlap,
                                 options.pretend_link);
  group = made.get();
  return made;
}

// A division within NCCL's all-reduce needs another kernel and rules out adding in the switch,
// so NCCL only adds, and the loss is divided. PyTorch divides first, too.
CrossEntropyLoss Setup::make_loss(const StepNumbers& numbers) const {
  return CrossEntropyLoss(numbers,
                          chosen_->backend.backend == Backend::nccl ? comm_.size() : 1);
}

std::unique_ptr<DataParallel> Setup::make_data_parallel(Mlp& model, ProcessGroup& carrier) {
  if (options.deterministic) {
    return std::make_unique<DeterministicDataParallel>(model, carrier, stream(),
                                                       chosen_->ranks);
  }
  const Backend backend = chosen_->backend.backend;
  const ReduceOp op = backend == Backend::nccl ? ReduceOp::sum : ReduceOp::avg;
  if (chosen_->shard) {
    chosen_->sharded_optimizer->connect(carrier);
    return std::make_unique<ShardedDataParallel>(model, carrier, stream(), *chosen_->shard, op);
  }
  return std::make_unique<DistributedDataParallel>(model, carrier, stream(),
                                                   bucket_caps(options), op);
}

BatchPlan Setup::batches() const {
  return {options.batch_size / chosen_->ranks.per_process(), options.loader_drop_last,
          options.accumulate};
}

std::size_t Setup::steps_after(std::size_t taken) const {
  const DistributedSampler sampler(data.size(), chosen_->ranks.count(), 0, options.sampler);
  return batches().steps(sampler.indices_after(taken).size());
}

std::vector<BatchSamples> Setup::batches_of_played_ranks(std::size_t epoch,
                                                         std::size_t taken) const {
  return batches_in_turn(train().size(), chosen_->ranks, batches(), options.sampler, epoch,
                         taken);
}

LrSchedule Setup::schedule() const {
  const OptimizerOptions& optimizer = options.optimizer;
  if (!options.scale_lr) return warmed_up(optimizer.lr, optimizer.warmup_steps);
  return linearly_scaled(optimizer.lr, chosen_->ranks.count(), optimizer.warmup_steps);
}

bool Setup::uses_graph() const {
  return options.graph && chosen_->backend.backend == Backend::nccl && !options.deterministic;
}

Position Setup::restore(Mlp& model, Optimizer& optimizer) const {
  if (file_) file_->restore(model.parameters(), stream());
  if (!options.resume) return {};
  std::array<std::uint64_t, 4> numbers{position_.step, position_.epoch, position_.taken,
                                       file_ ? file_->optimizer_steps() : 0};
  broadcast<std::uint64_t>(comm_, numbers, 0);
  optimizer.set_steps(numbers[3], stream());
  const std::size_t parameters = model.parameters().size();
  for (std::size_t s = 0; s < optimizer.state().size(); ++s) {
    const Optimizer::State& state = optimizer.state()[s];
    const std::size_t p = s % parameters;
    const Shape& shape = model.parameters()[p].value.shape();
    const Tensor whole = file_ ? file_->state(state.name, shape) : Tensor(shape, Device{});
    broadcast<float>(comm_, whole.span(), 0);
    if (chosen_->shard) {
      chosen_->shard->keep_part(p, whole, state.value, stream());
    } else {
      copy_bytes(stream(), state.value.data(), whole.data(), whole.size_bytes());
      stream().synchronize();
    }
  }
  Position position{.step = numbers[0], .epoch = numbers[1], .taken = numbers[2]};
  // With a different number of ranks, too few samples may be left for a step.
  if (steps_after(position.taken) == 0) position.start_next_epoch();
  return position;
}

std::vector<TensorSource> Setup::tensors(const Mlp& model, const Optimizer& optimizer) const {
  std::vector<TensorSource> tensors = checkpoint_tensors(model.parameters(), optimizer);
  if (!chosen_->shard) return tensors;
  const Shard& shard = *chosen_->shard;
  const std::size_t parameters = shard.parts().size();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool is_state = i >= parameters;
    if (!is_state && has_replicas()) continue;
    const std::size_t p = i % parameters;
    const Tensor mine = is_state ? tensors[i].get() : shard.parts()[p].value;
    tensors[i].get = [=, this, &shard] { return shard.gather(p, mine, stream()); };
  }
  return tensors;
}

void Setup::introduce(const Mlp& model) const {
  const int size = comm_.size();
  const BatchPlan plan = batches();
  const DistributedSampler sampler(data.size(), chosen_->ranks.count(), /*rank=*/0,
                                   options.sampler);
  console_->line(fmt::format("{} rank{}, model {} on {} ({}){}", size, size == 1 ? "" : "s",
                             join(options.layers, "-"), to_string(device()), device_.reason,
                             precision() == Precision::bf16 ? ", products in bf16" : ""));
  std::string gradients =
      fmt::format("gradients by {}: {}", group->description(), chosen_->backend.reason);
  if (options.deterministic) gradients = cost_of_determinism(chosen_->ranks, plan.size, model);
  if (chosen_->shard) gradients += "; each rank keeps a part (--shard " + options.shard + ")";
  console_->line(gradients);
  console_->line(
      fmt::format("{}: {} samples, {} per rank{}, in batches of {} x {} = {}", options.dataset,
                  data.size(), sampler.num_samples() * chosen_->ranks.per_process(),
                  sampler.total_size() > data.size() ? " (padded)" : "", size,
                  options.batch_size, static_cast<std::size_t>(size) * options.batch_size));
  for (const std::string& note : notes_) console_->line(note);
}

std::string Setup::promise() const {
  return has_replicas() ? "the same parameters, bit for bit, on every rank"
                        : "all parameters are finite, and each is on one rank";
}

RunDescription Setup::description() const {
  const Backend backend = chosen_->backend.backend;
  return {.device = to_string(device()),
          .precision = options.precision,
          .ranks = comm_.size(),
          .backend = to_string(backend),
          .algorithm = options.deterministic      ? "fixed-tree"
                       : backend == Backend::ours ? options.algorithm
                                                  : "",
          .shard = options.shard,
          .pretend_link = options.pretend_link,
          .overlaps = *options.overlap};
}

TrainingMemory Setup::memory(const Mlp& model, const Optimizer& optimizer) const {
  const Shard* const shard = chosen_->shard ? &*chosen_->shard : nullptr;
  // What is divided from this level on: this rank's parts, or whole parameters.
  const auto held = [&](ShardLevel level) {
    return shard != nullptr && shard->divides(level) ? shard->parts() : model.parameters();
  };
  TrainingMemory memory =
      count_memory(model, optimizer, held(ShardLevel::parameters), held(ShardLevel::gradients));
  if (shard != nullptr) memory.buckets = shard->slot_bytes;
  memory.before = memory_before_;
  memory.peak = memory_use(comm_.local_size()).peak;
  return memory;
}

}  // namespace dist
