#include "tools/watch/host_boards.hpp"

#include "tools/watch/text.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <new>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dist::watch {
namespace {

// The trace budget that all ranks of a host share.
constexpr std::size_t kTraceBytesPerHost = 24U << 20;
constexpr std::size_t kMostEvents = 1U << 17;
constexpr std::size_t kLine = 64;
constexpr std::uint64_t kMark = 0x6863746177747364;  // marks our segments: "dstwatch"
void* const kNowhere = reinterpret_cast<void*>(-1);  // what shmat returns on failure

std::string variable(const char* name, const char* otherwise = "") {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

int number_in(const char* name) {
  return std::atoi(variable(name, "-1").c_str());
}

// A segment that no process has attached belongs to a job that was killed before all its ranks
// had started, unless the rank that made the segment is still running and about to attach it.
void remove_leftovers() {
  shm_info kernel{};
  const int last = ::shmctl(0, SHM_INFO, reinterpret_cast<shmid_ds*>(&kernel));
  for (int place = 0; place <= last; ++place) {
    shmid_ds status{};
    const int segment = ::shmctl(place, SHM_STAT, &status);
    if (segment < 0 || status.shm_perm.cuid != ::getuid() || status.shm_nattch > 0 ||
        ::kill(status.shm_cpid, 0) == 0) {
      continue;
    }
    void* const memory = ::shmat(segment, nullptr, SHM_RDONLY);
    if (memory == kNowhere) continue;
    const bool ours = static_cast<const HostRecord*>(memory)->mark == kMark;
    ::shmdt(memory);
    if (ours) ::shmctl(segment, IPC_RMID, nullptr);
  }
}

}  // namespace

Place place_of_this_process() {
  Place place;
  const int local_size = number_in("OMPI_COMM_WORLD_LOCAL_SIZE");
  const int local_rank = number_in("OMPI_COMM_WORLD_LOCAL_RANK");
  if (local_rank < 0 || local_rank >= local_size) return place;
  place.rank = std::max(number_in("OMPI_COMM_WORLD_RANK"), 0);
  place.size = std::max(number_in("OMPI_COMM_WORLD_SIZE"), local_size);
  place.local_rank = local_rank;
  place.local_size = local_size;
  // Use the job's name and the address of the daemon that started the job's ranks on this host,
  // because two "hosts" may be containers that share memory.
  for (const char* const part :
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMIX_SERVER_URI41", "PMIX_SERVER_URI2"}) {
    place.job += variable(part) + " ";
  }
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  place.job += host.data();
  return place;
}

HostBoards::HostBoards(const Place& place, bool trace) {
  auto ranks = static_cast<std::size_t>(place.local_size);
  auto local_rank = static_cast<std::size_t>(place.local_rank);
  const std::size_t events =
      trace ? std::min(kMostEvents, kTraceBytesPerHost / sizeof(RecordedEvent) / ranks) : 0;
  const std::size_t board_bytes =
      (sizeof(RankBoard) + events * sizeof(RecordedEvent) + kLine - 1) / kLine * kLine;
  bytes_ = kLine + ranks * board_bytes;
  if (ranks > 1 && local_rank == 0) remove_leftovers();
  // A rank whose flags need a different layout gets its own segment.
  if (ranks == 1 || !attach_shared(concat(place.job, " ", ranks, " ", events))) {
    ranks = 1;
    local_rank = 0;
    bytes_ = kLine + board_bytes;
    memory_ =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    std::byte* const board = static_cast<std::byte*>(memory_) + kLine + r * board_bytes;
    all_.push_back(reinterpret_cast<RankBoard*>(board));
  }
  mine_ = all_[local_rank];
  mine_->rank = place.rank;
  ::gethostname(mine_->host_name.data(), mine_->host_name.size() - 1);
  mine_->event_capacity = events;
  mine_->pid = static_cast<std::int32_t>(::getpid());
  host().mark = kMark;
  if (host().present.fetch_add(1) + 1 == place.local_size) remove_name();
}

HostBoards::~HostBoards() {
  remove_name();
  ::munmap(memory_, bytes_);
}

// Returns false if this host provides no shared memory.
bool HostBoards::attach_shared(const std::string& name) {
  const auto key = static_cast<key_t>(std::hash<std::string>()(name) | 1);  // 0: not shared
  segment_ = ::shmget(key, bytes_, IPC_CREAT | S_IRUSR | S_IWUSR);
  if (segment_ < 0) return false;
  memory_ = ::shmat(segment_, nullptr, 0);
  return memory_ != kNowhere;
}

void HostBoards::remove_name() {
  if (segment_ >= 0) ::shmctl(segment_, IPC_RMID, nullptr);
}

}  // namespace dist::watch
