#include "common/buffer.hpp"

#include "common/check_cuda.hpp"
#include "common/stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace dist {

// The size of a cache line and of an AVX-512 register.
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = 2U << 20;

static std::shared_ptr<void> allocate_on_heap(std::size_t bytes) {
  const bool large = bytes >= kHugePage;
  void* memory = nullptr;
  if (::posix_memalign(&memory, large ? kHugePage : kAlignment, bytes) != 0) {
    throw Error(fmt::format("out of memory: {} bytes requested", bytes));
  }
#if defined(MADV_HUGEPAGE)
  // A matrix product walks down the columns of a weight matrix. Each element of a column is on
  // a different 4 KiB page, so a column has more pages than the processor's TLB holds. With 2
  // MiB pages, the matrix products of a 784-4096-4096-10 net take 15 % less time. The request
  // must precede the first access to the memory. A kernel without such pages refuses the
  // request, which does no harm.
  if (large) static_cast<void>(::madvise(memory, bytes, MADV_HUGEPAGE));
#endif
  std::memset(memory, 0, bytes);
  return {memory, std::free};
}

#if DIST_WITH_CUDA
static std::shared_ptr<void> allocate_for_gpu(std::size_t bytes, Device device, bool pinned) {
  const CurrentDevice current(device);
  void* memory = nullptr;
  ++gpu_allocations;
  const cudaError_t status =
      pinned ? cudaMallocHost(&memory, bytes) : cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation && !pinned) {
    static_cast<void>(cudaGetLastError());
    std::size_t free = 0, total = 0;
    CUDA_CHECK(cudaMemGetInfo(&free, &total));
    throw Error(fmt::format("out of memory on {}: {} bytes requested, {} of {} free",
                            to_string(device), bytes, free, total));
  }
  CUDA_CHECK(status);
  // Queued work may still use memory that is freed. CUDA's guide says that cudaFree waits for
  // it; the reference does not.
  const std::shared_ptr<void> owner(memory, [device, pinned](void* unused) {
    const CurrentDevice its_device(device);
    const GpuWait wait;
    cudaDeviceSynchronize();
    pinned ? cudaFreeHost(unused) : cudaFree(unused);
  });
  if (pinned) {
    std::memset(memory, 0, bytes);
    return owner;
  }
  CUDA_CHECK(cudaMemset(memory, 0, bytes));
  const GpuWait wait;
  // cudaMemset runs on the legacy default stream, which our non-blocking streams do not wait
  // for. Without this line, cudaMemset could overwrite a kernel's first results with zeros.
  CUDA_CHECK(cudaStreamSynchronize(nullptr));
  return owner;
}

#endif

std::size_t bytes_of(std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    throw Error(fmt::format("out of memory: {} elements of {} bytes requested", count, size));
  }
  return bytes;
}

std::shared_ptr<void> allocate(std::size_t bytes, [[maybe_unused]] Device device,
                               [[maybe_unused]] Memory memory) {
  bytes = std::max(kAlignment, bytes);  // never 0, so that no pointer is null
#if DIST_WITH_CUDA
  if (!device.is_cpu()) return allocate_for_gpu(bytes, device, memory == Memory::pinned);
#endif
  return allocate_on_heap(bytes);
}

}  // namespace dist
