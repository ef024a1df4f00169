// What this file adds: an error message from a rank that runs out of memory.
//
// When memory runs out, malloc returns a null pointer, but not all of the libraries below a
// program (Open MPI, PMIx, oneDNN) check for it. An unchecked null pointer crashes the rank, or
// the rank continues without a part of MPI while the others wait for it. So all of the
// process's requests for memory pass through this file on their way to the C library. If one
// fails, the rank ends with a message, and mpirun ends the others.
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

#if defined(__GLIBC__)  // glibc's internal names of malloc are known

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace {

// No machine has this much memory. Such a request comes from a flag or a broken file, and its
// caller can print a better message.
constexpr std::size_t kAbsurd = std::size_t{1} << 40;

// How long the launcher may take to end. It never ends if this rank exits while holding a lock:
// PMIx has locks in memory shared with the launcher, and holds them while it requests memory.
constexpr std::chrono::milliseconds kPatience{2500};
std::atomic<bool> ending{false};

// `what` is a printf format for one number.
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

// Used for segments that processes share and for code that oneDNN generates. A failed call
// returns normally if its caller can do without this memory: if the caller asked for a certain
// address, a reservation or huge pages, or is a GPU driver.
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
  if (problem == EAGAIN) end_this_rank("cannot start a thread; too many may be running\n");
  return problem;
}

#endif
