// The emulated runtime's memory. Copies, kernels and library calls check their pointers.
#include "tests/emulation/runtime.hpp"

#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace emulation {
namespace {

// Whether `memory` can be an address: whether its page is mapped.
bool is_mapped(std::uintptr_t memory) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  unsigned char ignored = 0;
  return ::mincore(reinterpret_cast<void*>(memory / page * page), 1, &ignored) == 0;
}

}  // namespace

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
  const Room room = room_on(the_device);
  *free = room.free;
  *total = room.total;
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
