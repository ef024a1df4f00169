// A rank that runs out of memory ends with a message, and mpirun ends the others. Not all of
// the libraries below a program (Open MPI, PMIx, oneDNN) check for the null pointer that malloc
// returns: the rank would crash, or go on without a part of MPI while the others wait for it.
#include "tools/watch/report/end_launcher.hpp"

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <pthread.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {
#define EXPORTED [[gnu::visibility("default")]]

// glibc's own functions.
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

// `what` is a printf format for `number`.
[[noreturn]] static void end_this_rank(const char* what, std::size_t number) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  char why[100], text[160];  // nothing here may allocate, as dprintf does
  std::snprintf(why, sizeof why, what, number);
  const int length = std::snprintf(text, sizeof text, "[rank %s] fatal: out of memory: %s\n",
                                   rank != nullptr ? rank : "0", why);
  static_cast<void>(!::write(STDERR_FILENO, text, static_cast<std::size_t>(length)));
  // The launcher never ends if this rank exits while holding a lock: PMIx has locks in memory
  // shared with the launcher, and holds them while it requests memory.
  static std::atomic<bool> ending{false};
  if (!ending.exchange(true)) dist::watch::end_launcher_after(std::chrono::milliseconds(2500));
  ::_exit(EXIT_FAILURE);
}

// No machine has this much memory. Such a request comes from a flag or a broken file, and its
// caller can print a better message.
static constexpr std::size_t kAbsurd = std::size_t{1} << 40;

// Set when the program calls MPI_Init (tools/watch/session.cpp): until then, libraries are
// being loaded.
static std::atomic<bool> program_runs{false};

// Whether the code at `caller` belongs to CUDA or NCCL. Once they are loaded, these check what
// their direct calls get, and return an error of their own, for example when no more memory can
// be pinned. While cuBLAS is being loaded, it checks nothing.
static bool is_of_cuda(const void* caller) {
  if (!program_runs) return false;
  Dl_info library{};
  if (::dladdr(caller, &library) == 0) return false;
  std::string_view name = library.dli_fname;
  name.remove_prefix(name.rfind('/') + 1);
  return name.starts_with("libcuda") || name.starts_with("libcublas") ||
         name.starts_with("libnccl") || name.starts_with("libnvidia");
}

EXPORTED void dist_memory_program_runs() {
  program_runs = true;
}

static void* checked(void* memory, std::size_t bytes, const void* caller) {
  if (memory == nullptr && bytes != 0 && bytes < kAbsurd && !is_of_cuda(caller)) {
    end_this_rank("%zu bytes cannot be allocated", bytes);
  }
  return memory;
}
#define CALLER __builtin_return_address(0)

EXPORTED void* malloc(std::size_t size) noexcept {
  return checked(__libc_malloc(size), size, CALLER);
}
EXPORTED void* calloc(std::size_t count, std::size_t size) noexcept {
  const bool absurd = size != 0 && count > kAbsurd / size;
  return checked(__libc_calloc(count, size), absurd ? kAbsurd : count * size, CALLER);
}
EXPORTED void* realloc(void* memory, std::size_t size) noexcept {
  return checked(__libc_realloc(memory, size), size, CALLER);
}
EXPORTED void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return checked(__libc_memalign(alignment, size), size, CALLER);
}
EXPORTED int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  if (alignment % sizeof(void*) != 0 || !std::has_single_bit(alignment)) return EINVAL;
  void* const got = checked(__libc_memalign(alignment, size), size, CALLER);
  if (got != nullptr) *memory = got;
  return got == nullptr ? ENOMEM : 0;
}

// Used for segments that processes share and for code that oneDNN generates. A failed call
// returns normally if its caller can do without this memory: if the caller asked for a certain
// address, a reservation or huge pages, or is a GPU driver.
EXPORTED void* mmap(void* at, std::size_t size, int protection, int flags, int file,
                    off_t begin) noexcept {
  void* const memory =
      reinterpret_cast<void*>(::syscall(SYS_mmap, at, size, protection, flags, file, begin));
  if (memory != MAP_FAILED || errno != ENOMEM || size >= kAbsurd) return memory;
  struct stat status {};
  const bool device = ::fstat(file, &status) == 0 && !S_ISREG(status.st_mode);
  const bool can_do_without = at != nullptr || protection == PROT_NONE ||
                              (flags & (MAP_NORESERVE | MAP_HUGETLB)) != 0 || device ||
                              is_of_cuda(CALLER);
  if (!can_do_without) end_this_rank("%zu bytes cannot be mapped", size);
  errno = ENOMEM;
  return memory;
}

EXPORTED int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                            void* (*start)(void*), void* argument) noexcept {
  static const auto create =
      reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  const int problem = create(thread, attributes, start, argument);
  if (problem == EAGAIN && !is_of_cuda(CALLER))
    end_this_rank("cannot start a thread; too many may be running", 0);
  return problem;
}

#undef CALLER
#undef EXPORTED
}  // extern "C"
