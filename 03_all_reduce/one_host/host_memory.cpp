#include "03_all_reduce/one_host/host_memory.hpp"

#include "common/atomic_file.hpp"
#include "common/check.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <limits>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dist {
namespace {

// The location of a rank's piece, and data to verify that it is the right piece: in a container
// with its own /proc, the process ID may belong to a different process.
struct Address {
  std::int64_t process, file;
  std::uint64_t device, inode;
};

// Called on all ranks. If `problem` (an errno) is nonzero on any rank, throws the same Error on
// all ranks. It names the rank by its number in the world, as mpirun does.
void throw_together(const Communicator& comm, int problem, const std::string& what) {
  struct Report {
    int problem, world_rank;
  };
  Report mine{problem, 0};
  MPI_CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &mine.world_rank));
  for (const Report& report : comm.all_gather(mine)) {
    if (report.problem == 0) continue;
    throw Error(fmt::format("rank {} cannot {}: {}", report.world_rank, what,
                            std::strerror(report.problem)));
  }
}

// The number of bytes that this host can still provide without swapping, as Linux estimates it.
std::uint64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  for (std::uint64_t kib = 0; file >> name >> kib; file.ignore(100, '\n')) {
    if (name == "MemAvailable:") return 1024 * kib;
  }
  return std::numeric_limits<std::uint64_t>::max();
}

// Maps `bytes` bytes of `file`. Empty on failure; errno then says why.
std::shared_ptr<std::byte> map(const File& file, std::size_t bytes) {
  if (file.descriptor() < 0) return nullptr;
  // MAP_POPULATE causes the page faults now rather than in the first all-reduce.
  void* begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                       file.descriptor(), 0);
  if (begin == MAP_FAILED) return nullptr;
  ::madvise(begin, bytes, MADV_HUGEPAGE);  // a hint, ignored if unsupported
  return {static_cast<std::byte*>(begin), [bytes](std::byte* p) { ::munmap(p, bytes); }};
}

}  // namespace

std::string why_no_host_memory(int ranks, int ranks_here) {
  // If any rank shares its host with all the others, all ranks are on that host.
  if (ranks_here == ranks) return "";
  return fmt::format("the {} ranks are on several hosts, which share no memory", ranks);
}

void require_host_memory(const std::string& flag, const Communicator& comm) {
  const std::string obstacle = why_no_host_memory(comm.size(), comm.local_size());
  if (!obstacle.empty()) throw Error(flag + ": shared-memory: " + obstacle);
}

HostMemory::HostMemory(const Communicator& comm, std::size_t bytes)
    : bytes_(std::max<std::size_t>(bytes, 1)) {
  const std::string asked = fmt::format("share {} bytes of memory", bytes);
  const File mine(::memfd_create("all-reduce", MFD_CLOEXEC));
  struct stat status {};
  // Insufficient memory must cause an error here rather than a bus error at the first access,
  // so this code uses fallocate instead of ftruncate. Because even fallocate may grant more
  // memory than exists, after which Linux kills a process, check the available memory first.
  const bool enough = bytes_ <= available_bytes() / static_cast<std::uint64_t>(comm.size());
  const bool allocated =
      enough && mine.descriptor() >= 0 &&
      ::fallocate(mine.descriptor(), 0, 0, static_cast<off_t>(bytes_)) == 0 &&
      ::fstat(mine.descriptor(), &status) == 0;
  int problem = allocated ? 0 : enough ? errno : ENOMEM;
  throw_together(comm, problem, asked);

  const Address address{::getpid(), mine.descriptor(), status.st_dev, status.st_ino};
  for (const Address& piece : comm.all_gather(address)) {
    const std::string path = fmt::format("/proc/{}/fd/{}", piece.process, piece.file);
    const File file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    pieces_.push_back(map(file, bytes_));
    if (!pieces_.back()) {
      problem = errno;
    } else if (::fstat(file.descriptor(), &status) != 0 || status.st_dev != piece.device ||
               status.st_ino != piece.inode) {
      problem = ENOENT;
    }
  }
  // No rank may close its file before this point: the others open it by its descriptor number.
  throw_together(comm, problem, asked + " with the others");
}

}  // namespace dist
