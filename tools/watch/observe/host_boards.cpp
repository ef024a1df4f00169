#include "tools/watch/observe/host_boards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dist::watch {
// The trace budget that all ranks of a host share.
constexpr std::size_t kTraceBytesPerHost = 24U << 20;
constexpr std::size_t kMostEvents = 1U << 17;
constexpr std::uint64_t kMark = 0x6863746177747364;         // marks our segments: "dstwatch"
static void* const kNowhere = reinterpret_cast<void*>(-1);  // what shmat returns on failure

static std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A segment that no process has attached belongs to a job that was killed before all its ranks
// had started, unless the rank that made the segment is still running and about to attach it.
static void remove_leftovers() {
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

// The number of Hydra's process that started the ranks on this host, directly or not; empty if
// a different launcher did.
static std::string hydra_proxy() {
  for (pid_t pid = ::getppid(); pid > 1;) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");  // "12 (name) S 34 ..."
    std::string text;
    std::getline(file, text);
    const std::size_t name = text.find('('), end = text.rfind(')');
    if (name == text.npos || end == text.npos || end + 4 > text.size()) return "";
    if (text.compare(name + 1, 15, "hydra_pmi_proxy") == 0) return std::to_string(pid);
    pid = std::atoi(text.c_str() + end + 4);
  }
  return "";
}

// Identifies the job on this host: its name, and the address of the daemon that started its
// ranks here, because two "hosts" may be containers that share memory.
static std::string job_on_this_host(const char* host_name) {
  std::string job = host_name;
  for (const char* const part :
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMIX_SERVER_URI41", "PMIX_SERVER_URI2"}) {
    job += " " + variable(part);
  }
  return variable("MPI_LOCALNRANKS").empty() ? job : job + " " + hydra_proxy();
}

// Returns nullptr if this host provides no shared memory.
static void* attach_shared(const std::string& name, std::size_t bytes, int& segment) {
  const auto key = static_cast<key_t>(std::hash<std::string>()(name) | 1);  // 0: not shared
  segment = ::shmget(key, bytes, IPC_CREAT | S_IRUSR | S_IWUSR);
  void* const memory = segment < 0 ? kNowhere : ::shmat(segment, nullptr, 0);
  return memory == kNowhere ? nullptr : memory;
}

int number_in(const char* name, const char* other) {
  const bool is_set = other == nullptr || std::getenv(name) != nullptr;
  return std::atoi(variable(is_set ? name : other).c_str());
}

// The launcher says which rank this is, because MPI cannot before MPI_Init.
HostBoards::HostBoards(const std::string& trace_file) : trace(trace_file) {
  // By Open MPI's names or by those of Hydra, MPICH's launcher.
  auto ranks = static_cast<std::size_t>(
      std::max(number_in("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"), 1));
  auto local_rank =
      static_cast<std::size_t>(number_in("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"));
  const auto started = static_cast<std::int32_t>(ranks);
  other_hosts = number_in("OMPI_COMM_WORLD_SIZE", "PMI_SIZE") > started;
  const std::size_t events =
      trace.empty() ? 0
                    : std::min(kMostEvents, kTraceBytesPerHost / sizeof(RecordedEvent) / ranks);
  const std::size_t board_bytes = sizeof(RankBoard) + events * sizeof(RecordedEvent);
  std::array<char, 64> host_name{};
  ::gethostname(host_name.data(), host_name.size() - 1);
  void* memory = nullptr;
  if (local_rank >= ranks) {  // a wrapper has set them
    fmt::print(stderr,
               "note: the launcher's variables call this rank number {} of {} on this host, "
               "so the watch sees it alone\n",
               local_rank, ranks);
  } else if (ranks > 1) {
    if (local_rank == 0) remove_leftovers();
    // A rank whose flags need a different layout gets its own segment.
    memory = attach_shared(
        fmt::format("{} {} {}", job_on_this_host(host_name.data()), ranks, events),
        sizeof(HostRecord) + ranks * board_bytes, segment);
  }
  if (memory == nullptr) {
    ranks = 1;
    local_rank = 0;
    memory = new std::byte[sizeof(HostRecord) + board_bytes]();
  }
  host = static_cast<HostRecord*>(memory);
  host->mark = kMark;
  for (std::size_t r = 0; r < ranks; ++r) {
    std::byte* const board =
        static_cast<std::byte*>(memory) + sizeof(HostRecord) + r * board_bytes;
    all.push_back(reinterpret_cast<RankBoard*>(board));
  }
  mine = all[local_rank];
  mine->rank = number_in("OMPI_COMM_WORLD_RANK", "PMI_RANK");
  mine->host_name = host_name;
  mine->event_capacity = events;
  mine->pid = static_cast<std::int32_t>(::getpid());
  if (host->present.fetch_add(1) + 1 == started) remove_name();
}

void HostBoards::remove_name() const {
  if (segment >= 0) ::shmctl(segment, IPC_RMID, nullptr);
}

}  // namespace dist::watch
