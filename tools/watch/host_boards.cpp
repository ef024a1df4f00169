#include "tools/watch/host_boards.hpp"

#include "tools/watch/text.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <new>
#include <string_view>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dist::watch {
namespace {

// For all ranks of a host together: small containers have 64 MiB of shared memory, and the
// lessons want some of it.
constexpr std::size_t kTraceBytesPerHost = 24U << 20;
constexpr std::size_t kMostEvents = 1U << 17;
constexpr std::size_t kLine = 64;

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

int number_in(const char* name, int otherwise) {
  const std::string_view text = variable(name);
  return text.empty() ? otherwise : std::atoi(text.data());
}

// Ours, and not another user's.
std::string prefix_of_names() {
  return concat("dist_watch.", ::getuid(), ".");
}

// A segment that no process has locked belongs to a job that was killed before all of its ranks
// had come. A young one may be about to be locked.
void remove_leftovers() {
  constexpr std::time_t kYoung_s = 60;
  const std::string prefix = prefix_of_names();
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/dev/shm"), ::closedir);
  while (const dirent* const entry = folder ? ::readdir(folder.get()) : nullptr) {
    if (std::strncmp(entry->d_name, prefix.c_str(), prefix.size()) != 0) continue;
    const std::string name = concat("/", entry->d_name);
    const int file = ::shm_open(name.c_str(), O_RDWR, 0);
    struct stat status {};
    if (file < 0) continue;
    if (::fstat(file, &status) == 0 && std::time(nullptr) - status.st_mtime > kYoung_s &&
        ::flock(file, LOCK_EX | LOCK_NB) == 0) {
      ::shm_unlink(name.c_str());
    }
    ::close(file);
  }
}

}  // namespace

Place place_of_this_process() {
  Place place;
  const int local_size = number_in("OMPI_COMM_WORLD_LOCAL_SIZE", 0);
  const int local_rank = number_in("OMPI_COMM_WORLD_LOCAL_RANK", -1);
  if (local_rank < 0 || local_rank >= local_size) return place;
  place.rank = number_in("OMPI_COMM_WORLD_RANK", 0);
  place.size = number_in("OMPI_COMM_WORLD_SIZE", local_size);
  place.local_rank = local_rank;
  place.local_size = local_size;
  // The job's name, and the address of the daemon that started this host's part of it: two
  // hosts may be two containers that share /dev/shm.
  for (const char* const part :
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMIX_SERVER_URI41", "PMIX_SERVER_URI2"}) {
    place.job += concat(variable(part), " ");
  }
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  place.job += host.data();
  return place;
}

HostBoards::HostBoards(const Place& place, bool trace) {
  const auto ranks = static_cast<std::size_t>(place.local_size);
  const std::size_t events =
      trace ? std::min(kMostEvents, kTraceBytesPerHost / sizeof(TraceEvent) / ranks) : 0;
  const std::size_t board_bytes =
      (sizeof(RankBoard) + events * sizeof(TraceEvent) + kLine - 1) / kLine * kLine;
  const auto local_rank = static_cast<std::size_t>(place.local_rank);
  bytes_ = kLine + ranks * board_bytes;
  // A rank with another command line counts on another layout: it gets another segment.
  const std::string layout = concat(place.job, " ", ranks, " ", events);
  if (ranks > 1) {
    name_ = concat("/", prefix_of_names(), std::hash<std::string>()(layout));
    if (local_rank == 0) remove_leftovers();
  }
  const bool shared = ranks > 1 && map_shared(kLine + local_rank * board_bytes, board_bytes);
  if (!shared) {
    bytes_ = kLine + board_bytes;
    map_private();
  }
  auto* const begin = static_cast<std::byte*>(memory_);
  host_ = reinterpret_cast<HostRecord*>(begin);
  for (std::size_t r = 0; r < (shared ? ranks : 1); ++r) {
    all_.push_back(reinterpret_cast<RankBoard*>(begin + kLine + r * board_bytes));
  }
  // Memory of zeros is an empty board, so nobody has to wait until it is made.
  mine_ = all_[shared ? local_rank : 0];
  mine_->rank = place.rank;
  ::gethostname(mine_->host_name.data(), mine_->host_name.size() - 1);
  mine_->event_capacity = events;
  mine_->pid = static_cast<std::int32_t>(::getpid());
  if (shared && host_->present.fetch_add(1) + 1 == place.local_size)
    ::shm_unlink(name_.c_str());
}

HostBoards::~HostBoards() {
  remove_name();
  ::munmap(memory_, bytes_);
  if (file_ >= 0) ::close(file_);
}

// False where there is no shared memory, or too little.
bool HostBoards::map_shared(std::size_t own_offset, std::size_t own_bytes) {
  file_ = ::shm_open(name_.c_str(), O_RDWR | O_CREAT, S_IRUSR | S_IWUSR);
  if (file_ < 0) return false;
  // Held until this process ends, however it ends: see remove_leftovers.
  ::flock(file_, LOCK_SH);
  // Memory that is only promised would be a bus error when it is used.
  if (::ftruncate(file_, static_cast<off_t>(bytes_)) != 0 ||
      ::posix_fallocate(file_, 0, kLine) != 0 ||
      ::posix_fallocate(file_, static_cast<off_t>(own_offset), static_cast<off_t>(own_bytes)) !=
          0) {
    return false;
  }
  void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) return false;
  memory_ = memory;
  return true;
}

void HostBoards::map_private() {
  memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory_ == MAP_FAILED) throw std::bad_alloc();
}

void HostBoards::remove_name() {
  // Once all have come the last one has removed it, and the name may be another's by now.
  const bool all_came = static_cast<std::size_t>(host_->present) == all_.size();
  if (!name_.empty() && !all_came) ::shm_unlink(name_.c_str());
  name_.clear();
}

}  // namespace dist::watch
