#include "05_ddp_training/trainer/parallelism.hpp"

#include "03_all_reduce/one_host/host_memory.hpp"
#include "05_ddp_training/deterministic/deterministic_data_parallel.hpp"
#include "05_ddp_training/sharding/sharded_data_parallel.hpp"

#include <algorithm>
#include <bit>
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

void Parallelism::check() {
  if (options_.algorithm == AllReduceAlgorithm::shared_memory) {
    require_host_memory("--algorithm", program_.comm);
  }
  ranks_ = virtual_ranks(options_, program_.comm);
}

void Parallelism::check_together() {
  const Communicator& comm = program_.comm;
  backend_ = choose_backend(options_.backend, comm, program_.device.device);
  check_usage(options_.pretend_link == 0 || backend_.backend != Backend::nccl,
              "--pretend-link: needs --backend ours or mpi, not nccl");
  // NCCL's all-reduce takes tens of microseconds at any size, so fewer buckets are better.
  if (backend_.backend == Backend::nccl &&
      program_.flags.text_given("--bucket-cap-mb").empty()) {
    options_.bucket_cap_mb = 25;
  }
  options_.overlap =
      choose_overlap(options_.overlap, backend_.backend, comm, program_.common.threads);
}

std::unique_ptr<ProcessGroup> Parallelism::make_group() const {
  return make_process_group(backend_.backend, program_.comm, program_.device.device,
                            options_.algorithm, *options_.overlap, options_.pretend_link,
                            backend_.nccl);
}

std::unique_ptr<DataParallel> Parallelism::make_data_parallel(Module& model,
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

}  // namespace dist
