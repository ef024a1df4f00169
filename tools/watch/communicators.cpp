#include "tools/watch/communicators.hpp"

#include "tools/watch/call_hooks.hpp"

#include <memory>
#include <mutex>
#include <numeric>
#include <unordered_map>

namespace dist::watch {
namespace {

constexpr std::uint32_t kWorldId = 1;

struct Registry {
  std::mutex mutex;
  std::unordered_map<MPI_Comm, std::unique_ptr<CommunicatorInfo>> infos;
  // Counts freed communicators, because MPI may reuse a handle for a different communicator.
  std::atomic<std::uint64_t> generation{1};
};

Registry& registry() {
  static auto* const the_registry = new Registry;  // threads may outlive static objects
  return *the_registry;
}

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
CommunicatorInfo& insert(MPI_Comm comm, std::uint32_t parent, std::uint32_t child) {
  auto info = std::make_unique<CommunicatorInfo>();
  info->world_ranks = world_ranks_of(comm);
  const int first = info->world_ranks.empty() ? 0 : info->world_ranks.front();
  const std::uint64_t hash =
      mix(mix((std::uint64_t{parent} << 32) + child) + static_cast<std::uint32_t>(first));
  info->id = comm == MPI_COMM_WORLD ? kWorldId : static_cast<std::uint32_t>(hash) | 0x80000000U;
  // A report must name every rank missing from a collective, even a rank that has never entered
  // one.
  if (RankBoard* const board = my_board()) board->communicator(info->id);
  return *(registry().infos[comm] = std::move(info));
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
  thread_local std::uint64_t generation = 0;
  Registry& all = registry();
  const std::uint64_t current = all.generation.load(std::memory_order_acquire);
  if (comm == last && generation == current) return *info;
  const std::lock_guard lock(all.mutex);
  const auto found = all.infos.find(comm);
  // A communicator from a call that the watch does not see has no known parent.
  info = found != all.infos.end() ? found->second.get() : &insert(comm, 0, 0);
  last = comm;
  generation = current;
  return *info;
}

int world_rank_in(std::uint32_t id, int rank) {
  const std::lock_guard lock(registry().mutex);
  for (const auto& [comm, info] : registry().infos) {
    if (info->id == id) return info->world_rank(rank);
  }
  return kNobody;
}

void register_child(MPI_Comm parent, MPI_Comm child) {
  CommunicatorInfo& info = info_of(parent);
  const std::uint32_t index = info.children.fetch_add(1);
  if (child == MPI_COMM_NULL) return;
  const std::lock_guard lock(registry().mutex);
  insert(child, info.id, index + 1);
}

void forget(MPI_Comm comm) {
  const std::lock_guard lock(registry().mutex);
  registry().infos.erase(comm);
  registry().generation.fetch_add(1, std::memory_order_release);
}

void note_communicators() {
  info_of(MPI_COMM_WORLD);
  const std::lock_guard lock(registry().mutex);
  for (const auto& [comm, info] : registry().infos) my_board()->communicator(info->id);
}

}  // namespace dist::watch
