#include "tools/watch/communicators.hpp"

#include "tools/watch/call_hooks.hpp"

#include <mutex>
#include <numeric>
#include <unordered_map>

namespace dist::watch {
namespace {

constexpr std::uint32_t kWorldId = 1;

struct Registry {
  std::mutex mutex;
  // An entry keeps its address, even if MPI reuses the handle for a different communicator.
  std::unordered_map<MPI_Comm, CommunicatorInfo> infos;
};
Registry& registry = *new Registry;  // threads may outlive static objects

std::vector<int> world_ranks_of(MPI_Comm comm) {
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  int size = 0;
  PMPI_Comm_group(comm, &group);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  PMPI_Group_size(group, &size);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> world_ranks(ranks.size());
  PMPI_Group_translate_ranks(group, size, ranks.data(), world, world_ranks.data());
  PMPI_Group_free(&group);
  PMPI_Group_free(&world);
  return world_ranks;
}

// Called with the lock held.
void fill(CommunicatorInfo& info, MPI_Comm comm, std::uint32_t parent, std::uint32_t child) {
  info = {.world_ranks = world_ranks_of(comm)};
  const auto first =
      static_cast<std::uint32_t>(info.world_ranks.empty() ? 0 : info.world_ranks[0]);
  const std::uint64_t hash = mix(mix((std::uint64_t{parent} << 32) + child) + first);
  info.id = comm == MPI_COMM_WORLD ? kWorldId : static_cast<std::uint32_t>(hash) | 0x80000000U;
  // A report must name every rank missing from a collective, even a rank that has never entered
  // one.
  if (RankBoard* const board = my_board()) board->communicator(info.id);
}

}  // namespace

int CommunicatorInfo::world_rank(int rank) const {
  if (rank == MPI_ANY_SOURCE) return kAnyone;
  if (rank < 0 || static_cast<std::size_t>(rank) >= world_ranks.size()) return kNobody;
  return world_ranks[static_cast<std::size_t>(rank)];
}

CommunicatorInfo& info_of(MPI_Comm comm) {
  // Most calls use the communicator of the call before.
  thread_local MPI_Comm last = MPI_COMM_NULL;
  thread_local CommunicatorInfo* info = nullptr;
  if (info != nullptr && comm == last && info->id != 0) return *info;
  const std::lock_guard lock(registry.mutex);
  last = comm;
  info = &registry.infos[comm];
  // A communicator from a call that the watch does not see has no known parent.
  if (info->id == 0) fill(*info, comm, /*parent=*/0, /*child=*/0);
  return *info;
}

int world_rank_in(std::uint32_t id, int rank) {
  const std::lock_guard lock(registry.mutex);
  for (const auto& [comm, info] : registry.infos) {
    if (info.id == id) return info.world_rank(rank);
  }
  return kNobody;
}

void register_child(MPI_Comm parent, MPI_Comm child) {
  CommunicatorInfo& info = info_of(parent);
  const std::uint32_t index = ++info.children;
  if (child == MPI_COMM_NULL) return;
  const std::lock_guard lock(registry.mutex);
  fill(registry.infos[child], child, info.id, index);
}

void forget(MPI_Comm comm) {
  const std::lock_guard lock(registry.mutex);
  registry.infos[comm].id = 0;
}

}  // namespace dist::watch
