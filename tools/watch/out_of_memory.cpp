// What this file adds: last words for a rank that runs out of memory.
//
// malloc reports it by a null pointer, and not all libraries under a program (Open MPI, PMIx,
// oneDNN) look at it: the rank dies of a bad address, or lives on without a part of MPI while
// the others wait for it. So all requests of the process pass through here on their way to the
// C library, and one that fails ends the rank. mpirun then ends the others.
#include "tools/watch/launcher.hpp"

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__GLIBC__)  // whose own names of malloc are known

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace {

// No machine has this much. Such a request comes from a flag or a broken file, and whoever
// makes it has a better sentence.
constexpr std::size_t kAbsurd = std::size_t{1} << 40;

// For the launcher to end. It never does if this rank takes a lock along: PMIx has some in
// memory that both share, and holds them while it asks for more.
constexpr std::chrono::milliseconds kPatience{2500};
std::atomic<bool> ending{false};

// `what` is a format of one number.
[[noreturn]] void end_this_rank(const char* what, std::size_t number = 0) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  char text[200];  // nothing here may allocate
  int length = std::snprintf(text, sizeof text,
                             "[rank %s] fatal: out of memory: ", rank == nullptr ? "0" : rank);
  length += std::snprintf(text + length, sizeof text - static_cast<std::size_t>(length), what,
                          number);
  [[maybe_unused]] const ssize_t written =
      ::write(STDERR_FILENO, text, static_cast<std::size_t>(length));
  if (!ending.exchange(true)) dist::watch::end_launcher_after(kPatience);
  ::_exit(EXIT_FAILURE);
}

void* checked(void* memory, std::size_t bytes) {
  if (memory == nullptr && bytes != 0 && bytes < kAbsurd) {
    end_this_rank("%zu bytes cannot be allocated\n", bytes);
  }
  return memory;
}

}  // namespace

#define DIST_EXPORTED extern "C" [[gnu::visibility("default")]]

DIST_EXPORTED void* malloc(std::size_t size) noexcept {
  return checked(__libc_malloc(size), size);
}

DIST_EXPORTED void* calloc(std::size_t count, std::size_t size) noexcept {
  const bool absurd = size != 0 && count > kAbsurd / size;
  return checked(__libc_calloc(count, size), absurd ? kAbsurd : count * size);
}

DIST_EXPORTED void* realloc(void* memory, std::size_t size) noexcept {
  return checked(__libc_realloc(memory, size), size);
}

DIST_EXPORTED void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return checked(__libc_memalign(alignment, size), size);
}

DIST_EXPORTED int posix_memalign(void** memory, std::size_t alignment,
                                 std::size_t size) noexcept {
  if (alignment % sizeof(void*) != 0 || !std::has_single_bit(alignment)) return EINVAL;
  void* const got = aligned_alloc(alignment, size);
  if (got != nullptr) *memory = got;
  return got == nullptr ? ENOMEM : 0;
}

// Segments that processes share, and code that oneDNN writes. Left alone is who can go on
// without: by another address, without a reserve or huge pages; and the driver of a GPU.
DIST_EXPORTED void* mmap(void* at, std::size_t size, int protection, int flags, int file,
                         off_t begin) noexcept {
  void* const memory =
      reinterpret_cast<void*>(::syscall(SYS_mmap, at, size, protection, flags, file, begin));
  if (memory != MAP_FAILED || errno != ENOMEM || size >= kAbsurd) return memory;
  struct stat status {};
  const bool device = ::fstat(file, &status) == 0 && !S_ISREG(status.st_mode);
  const bool can_do_without = at != nullptr || protection == PROT_NONE ||
                              (flags & (MAP_NORESERVE | MAP_HUGETLB)) != 0 || device;
  if (!can_do_without) end_this_rank("%zu bytes cannot be mapped\n", size);
  errno = ENOMEM;
  return memory;
}

DIST_EXPORTED int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                 void* (*start)(void*), void* argument) noexcept {
  static const auto create =
      reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  const int problem = create(thread, attributes, start, argument);
  if (problem == EAGAIN) end_this_rank("another thread cannot be started, or too many run\n");
  return problem;
}

#endif
