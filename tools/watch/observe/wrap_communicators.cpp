// The creation and release of communicators. All ranks make these calls together, so they are
// numbered with the collectives of the communicator that they are made from.
//
// Without exchanging messages, the ranks compute a communicator's id from the parent's id, the
// number of children that the parent had, and the communicator's first rank.
#include "tools/watch/observe/wrap.hpp"

#include <mutex>
#include <numeric>
#include <unordered_map>

using namespace dist::watch;

namespace {

constexpr std::uint32_t kWorldId = 1;

struct Registry {
  std::mutex mutex;
  // An entry keeps its address, even if MPI reuses the handle for a different communicator.
  std::unordered_map<MPI_Comm, CommunicatorInfo> infos;
};
Registry& registry = *new Registry;  // threads may outlive static objects

// Of the ranks to which messages go: between two groups, those of the other one.
std::vector<int> world_ranks_of(MPI_Comm comm) {
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  int size = 0, between_groups = 0;
  PMPI_Comm_test_inter(comm, &between_groups);
  (between_groups != 0 ? PMPI_Comm_remote_group : PMPI_Comm_group)(comm, &group);
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

// Children are registered even while no mode is switched on, because a communicator made before
// a count starts must have the same id on all ranks. All ranks of the parent make these calls
// in the same order; on some of them, *child is MPI_COMM_NULL.
int registered(MPI_Comm parent, const MPI_Comm* child, int result) {
  if (result != MPI_SUCCESS) return result;
  CommunicatorInfo& info = info_of(parent);
  const std::uint32_t index = ++info.children;
  if (*child == MPI_COMM_NULL) return result;
  const std::lock_guard lock(registry.mutex);
  fill(registry.infos[*child], *child, info.id, index);
  return result;
}

}  // namespace

namespace dist::watch {

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

}  // namespace dist::watch

extern "C" {

int MPI_Comm_dup(MPI_Comm parent, MPI_Comm* child) {
  return observed(Call::MPI_Comm_dup, Collective{parent},
                  [=] { return registered(parent, child, PMPI_Comm_dup(parent, child)); });
}
int MPI_Comm_split(MPI_Comm parent, int color, int key, MPI_Comm* child) {
  return observed(Call::MPI_Comm_split, Collective{parent}, [=] {
    return registered(parent, child, PMPI_Comm_split(parent, color, key, child));
  });
}
int MPI_Comm_split_type(MPI_Comm parent, int type, int key, MPI_Info info, MPI_Comm* child) {
  return observed(Call::MPI_Comm_split_type, Collective{parent}, [=] {
    return registered(parent, child, PMPI_Comm_split_type(parent, type, key, info, child));
  });
}
int MPI_Comm_create(MPI_Comm parent, MPI_Group group, MPI_Comm* child) {
  return observed(Call::MPI_Comm_create, Collective{parent}, [=] {
    return registered(parent, child, PMPI_Comm_create(parent, group, child));
  });
}

int MPI_Comm_free(MPI_Comm* comm) {
  {
    const std::lock_guard lock(registry.mutex);
    registry.infos[*comm].id = 0;
  }
  return PMPI_Comm_free(comm);
}

}  // extern "C"
