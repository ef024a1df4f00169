// The emulated runtime's memory: "device" memory is host memory that only streams may touch.
// Each GPU has its own range of addresses, as has pinned memory, and no address is used twice.
// Copies, kernels and library calls check their pointers.
//
// A memory protection key (pkeys(7)) gives each thread access to memory or denies it. Under
// the key of device memory, the streams' threads have access, but the host's do not. So the
// host's first access always faults, at that very instruction. On a processor without such keys
// no access is trapped, so only the poison reveals mistakes.
//
// Freed memory stays reserved and inaccessible, so that a kernel that still uses it faults,
// too.
#include "tests/emulation/runtime.hpp"

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
  constexpr char kNowhere[] =
      "emulated CUDA: memory was touched that is in no block, or freed\n";
  constexpr char kOther[] = "segmentation fault\n";
  const auto say = [](const char* text) {
    static_cast<void>(!::write(STDERR_FILENO, text, std::strlen(text)));
  };
  if (info->si_code == SEGV_PKUERR) {
    say(kHost);
  } else {
    say(owner_of(info->si_addr) ? kNowhere : kOther);
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

// Returns `bytes` of poisoned memory (every float is a NaN), or null if no room is left. If the
// processor has protection keys, a thread other than a stream's that touches a GPU's memory
// ends the program. On every processor, touching freed memory ends the program.
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

// Whether `memory` can be an address: whether its page is mapped.
bool is_mapped(std::uintptr_t memory) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  unsigned char ignored = 0;
  return ::mincore(reinterpret_cast<void*>(memory / page * page), 1, &ignored) == 0;
}

}  // namespace

std::optional<int> owner_of(const void* memory) {
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(memory) - addresses().begin;
  if (offset >= kOwners * kRange) return std::nullopt;
  return static_cast<int>(offset / kRange);
}

void allow_device_memory() {
  if (const int key = addresses().key; key >= 0) ::pkey_set(key, 0);
}

void check_memory(cudaStream_t stream, const void* memory, const char* user) {
  const auto owner = owner_of(memory);
  if (!owner) stop(user, "pageable host memory");
  if (*owner != kPinned && *owner != resolve(stream)->device) {
    stop(user, "memory of a different GPU");
  }
}

void check_arguments(cudaStream_t stream, const void* arguments, std::size_t bytes) {
  // A word that looks like an address and is one. Sizes and floating-point numbers do not.
  constexpr std::uintptr_t kLow = std::uintptr_t{1} << 32;
  constexpr std::uintptr_t kHigh = std::uintptr_t{1} << 47;
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= bytes; at += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, static_cast<const char*>(arguments) + at, sizeof word);
    auto* const memory = reinterpret_cast<const void*>(word);
    if (word < kLow || word >= kHigh) continue;
    if (owner_of(memory) || is_mapped(word)) check_memory(stream, memory, "a kernel");
  }
}

}  // namespace emulation

using namespace emulation;

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  ++counters.allocations;
  if (breaks_captures()) return result(cudaErrorStreamCaptureUnsupported);
  *memory = allocate(bytes, the_device);
  return result(*memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* memory) {
  if (breaks_captures()) return result(cudaErrorStreamCaptureUnsupported);
  if (memory != nullptr) release(memory);
  return result();
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  ++counters.allocations;
  if (breaks_captures()) return result(cudaErrorStreamCaptureUnsupported);
  *memory = allocate(bytes, kPinned);
  return result(*memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void* memory) {
  return cudaFree(memory);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(mutex);
  *free = kTotal - used[static_cast<std::size_t>(the_device)];
  *total = kTotal;
  return result();
}

cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  if (breaks_captures()) return result(cudaErrorStreamCaptureUnsupported);
  check_memory(nullptr, memory, "cudaMemset");
  enqueue(
      nullptr, [=] { std::memset(memory, value, bytes); }, cudaGraphNodeTypeMemset);
  return result();
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  for (const void* memory : {const_cast<const void*>(to), from}) {
    // Pageable memory is allowed here, but CUDA says only that the call "may be synchronous".
    if (owner_of(memory)) {
      check_memory(stream, memory, "cudaMemcpyAsync");
    } else if (resolve(stream)->point.capture) {
      stop("a captured copy", "pageable host memory");
    } else {
      ++counters.pageable_copies;
    }
  }
  enqueue(
      stream, [=] { std::memcpy(to, from, bytes); }, cudaGraphNodeTypeMemcpy);
  return result();
}
