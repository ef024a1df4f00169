#include "05_ddp_training/process_group/overlap_choice.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <sched.h>
#include <thread>

namespace dist {
namespace {

// The number of cores that this process may run on: those to which mpirun bound it, or all
// cores if it is not bound.
int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CPU_COUNT(&set);
}

}  // namespace

OverlapChoice choose_overlap(std::optional<bool> request, Backend backend,
                             const Communicator& comm, int threads) {
  if (backend == Backend::nccl) return {true, "on its own stream"};
  if (request) return {*request, *request ? "on its own thread" : "as requested"};
  if (comm.size() == 1) return {false, "a single rank sends nothing"};
  const int all = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int cores = usable_cores();
  // Bound ranks have their cores to themselves; unbound ranks share all cores.
  const bool is_free = cores < all ? cores > threads : cores > comm.local_size() * threads;
  if (comm.all_agree(is_free)) return {true, "on its own thread"};
  return {false, fmt::format("no core is free for it: {} ranks on {} cores", comm.local_size(),
                             cores < all ? cores * comm.local_size() : all)};
}

}  // namespace dist
