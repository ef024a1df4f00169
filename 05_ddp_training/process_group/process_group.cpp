// The choices that a run's flags leave open.
#include "05_ddp_training/process_group/process_group.hpp"

#include "01_send_recv/gpu/nccl_communicator.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <sched.h>
#include <thread>

namespace dist {

std::string to_string(Backend backend) {
  constexpr std::array kNames{"ours", "mpi", "nccl"};
  return kNames.at(static_cast<std::size_t>(backend));
}

BackendChoice choose_backend(const std::string& request, const Communicator& comm,
                             Device device) {
  if (request == "ours") return {Backend::ours, "as requested"};
  if (request == "mpi") return {Backend::mpi, "as requested"};
  const auto [possible, reason] = can_use_nccl(comm, device);
  if (possible) return {Backend::nccl, reason};
  if (request == "nccl") throw Error("--backend: nccl: " + reason);
  return {Backend::ours, reason};
}

bool choose_overlap(std::optional<bool> request, Backend backend, const Communicator& comm,
                    int threads) {
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

}  // namespace dist
