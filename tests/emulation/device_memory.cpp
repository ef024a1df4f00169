// A memory protection key (pkeys(7)) gives each thread access to memory or denies it. Device
// memory has a key that gives access to the streams' threads but not to the host's threads. So
// the host's first access always faults, at that very instruction. On a processor without such
// keys no access is trapped, and only the poison reveals mistakes.
#include "tests/emulation/device_memory.hpp"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace emulation {
namespace {

std::mutex mutex;
std::map<std::uintptr_t, std::size_t> blocks;  // begin -> bytes

extern "C" void explain_fault(int, siginfo_t* info, void*) {
  constexpr char kHost[] = "emulated CUDA: the host touched device memory\n";
  constexpr char kOther[] = "segmentation fault\n";
  const bool by_key = info->si_code == SEGV_PKUERR;
  const ssize_t ignored = by_key ? ::write(STDERR_FILENO, kHost, sizeof(kHost) - 1)
                                 : ::write(STDERR_FILENO, kOther, sizeof(kOther) - 1);
  static_cast<void>(ignored);
  std::_Exit(1);
}

// The key of all device memory; -1 if the processor has no keys. The calling thread, which
// belongs to the host, and all threads that it starts lose access.
int device_key() {
  static const int key = [] {
    const int new_key = ::pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (new_key >= 0) {
      struct sigaction action {};
      action.sa_sigaction = explain_fault;
      action.sa_flags = SA_SIGINFO;
      sigaction(SIGSEGV, &action, nullptr);
    }
    return new_key;
  }();
  return key;
}

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

void* allocate_device(std::size_t bytes) {
  const std::size_t size = whole_pages(bytes == 0 ? 1 : bytes);
  void* memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::memset(memory, 0xff, size);  // NaNs reveal reads before the first write
  if (device_key() >= 0) ::pkey_mprotect(memory, size, PROT_READ | PROT_WRITE, device_key());
  const std::lock_guard lock(mutex);
  blocks[reinterpret_cast<std::uintptr_t>(memory)] = size;
  return memory;
}

void free_device(void* memory) {
  const std::lock_guard lock(mutex);
  const auto block = blocks.find(reinterpret_cast<std::uintptr_t>(memory));
  if (block == blocks.end()) {
    std::fprintf(stderr, "emulated CUDA: cudaFree of memory that is not device memory\n");
    std::abort();
  }
  ::munmap(memory, block->second);
  blocks.erase(block);
}

bool is_device(const void* memory) {
  const std::lock_guard lock(mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return false;
  --after;
  return address < after->first + after->second;
}

void allow_device_memory() {
  if (device_key() >= 0) ::pkey_set(device_key(), 0);
}

}  // namespace emulation
