// A memory protection key (pkeys(7)) gives each thread access to memory or denies it. Under
// the key of device memory, the streams' threads have access, but the host's do not. So the
// host's first access always faults, at that very instruction. On a processor without such keys
// no access is trapped, so only the poison reveals mistakes.
//
// Freed memory stays reserved and inaccessible, so that a kernel that still uses it faults,
// too.
#include "tests/emulation/device_memory.hpp"

#include <array>
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

// The emulated card has only 1 GiB, so that running out of memory can be tested.
constexpr std::size_t kTotal = std::size_t{1} << 30;
constexpr std::size_t kOwners = kPinned + 1;
constexpr std::size_t kRange = std::size_t{1} << 38;  // addresses for each owner

std::mutex mutex;
std::map<std::uintptr_t, std::size_t> blocks;  // begin -> bytes
std::array<std::size_t, kOwners> used{};       // bytes
std::array<std::size_t, kOwners> taken{};      // addresses, including those of freed memory

extern "C" void explain_fault(int, siginfo_t* info, void*) {
  constexpr char kHost[] = "emulated CUDA: the host touched device memory\n";
  constexpr char kFreed[] = "emulated CUDA: freed memory was touched\n";
  constexpr char kOther[] = "segmentation fault\n";
  const auto say = [](const char* text) {
    static_cast<void>(!::write(STDERR_FILENO, text, std::strlen(text)));
  };
  if (info->si_code == SEGV_PKUERR) {
    say(kHost);
  } else {
    say(owner_of(info->si_addr) ? kFreed : kOther);
  }
  std::_Exit(1);
}

// Reserves the addresses of all owners. Sets up `key`, the key of all device memory; -1 if the
// processor has no keys. The calling thread, which belongs to the host, and all threads that it
// starts lose access.
struct Addresses {
  std::uintptr_t begin = 0;
  int key = -1;

  Addresses() {
    void* const reserved = ::mmap(nullptr, kOwners * kRange, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) {
      std::perror("emulated CUDA: reserving addresses");
      std::abort();
    }
    begin = reinterpret_cast<std::uintptr_t>(reserved);
    key = ::pkey_alloc(0, PKEY_DISABLE_ACCESS);
    struct sigaction action {};
    action.sa_sigaction = explain_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
  }
};

const Addresses& addresses() {
  static const Addresses all;
  return all;
}

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

void* allocate(std::size_t bytes, int owner) {
  const auto index = static_cast<std::size_t>(owner);
  if (bytes > kTotal) return nullptr;
  const std::size_t size = whole_pages(bytes == 0 ? 1 : bytes);
  const std::lock_guard lock(mutex);
  if (used[index] + size > kTotal || taken[index] + 2 * size > kRange) return nullptr;
  const std::uintptr_t begin = addresses().begin + index * kRange + taken[index];
  auto* const memory = reinterpret_cast<void*>(begin);
  if (::mprotect(memory, size, PROT_READ | PROT_WRITE) != 0) return nullptr;
  std::memset(memory, 0xff, size);  // NaNs reveal reads before the first write
  const int key = addresses().key;
  if (owner != kPinned && key >= 0) {
    ::pkey_mprotect(memory, size, PROT_READ | PROT_WRITE, key);
  }
  blocks[begin] = size;
  used[index] += size;
  taken[index] += size + whole_pages(1);  // an inaccessible page follows each block
  return memory;
}

void release(void* memory) {
  const std::lock_guard lock(mutex);
  const auto block = blocks.find(reinterpret_cast<std::uintptr_t>(memory));
  if (block == blocks.end()) {
    std::fprintf(stderr, "emulated CUDA: freeing memory that CUDA did not allocate\n");
    std::_Exit(1);
  }
  used[static_cast<std::size_t>(*owner_of(memory))] -= block->second;
  ::madvise(memory, block->second, MADV_DONTNEED);
  ::mprotect(memory, block->second, PROT_NONE);
  blocks.erase(block);
}

std::optional<int> owner_of(const void* memory) {
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(memory) - addresses().begin;
  if (offset >= kOwners * kRange) return std::nullopt;
  return static_cast<int>(offset / kRange);
}

Room room_on(int device) {
  const std::lock_guard lock(mutex);
  return {kTotal - used[static_cast<std::size_t>(device)], kTotal};
}

void allow_device_memory() {
  if (const int key = addresses().key; key >= 0) ::pkey_set(key, 0);
}

}  // namespace emulation
