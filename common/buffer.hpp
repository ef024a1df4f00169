// Memory on the CPU or on a GPU, owned by one object.
#pragma once

#include "common/device.hpp"

#include <cstddef>
#include <memory>
#include <type_traits>

namespace dist {

enum class Memory {
  device,  // ordinary memory of the device: the heap, or cudaMalloc
  pinned,  // host memory that the GPU reads and writes directly; the heap without CUDA
};

// Allocates `bytes` bytes of zeroed memory, aligned to at least 64 bytes. Throws Error saying
// how much was requested and, on a GPU, how much was free.
std::shared_ptr<void> allocate(std::size_t bytes, Device device,
                               Memory memory = Memory::device);

// Returns count * size. Throws Error on overflow, so that no buffer is smaller than it claims.
std::size_t bytes_of(std::size_t count, std::size_t size);

// `count` elements, zeroed. Move-only.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  Buffer(std::size_t count, Device device, Memory memory = Memory::device)
      : storage_(allocate(bytes_of(count, sizeof(T)), device, memory)),
        count_(count),
        device_(device) {}
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&&) noexcept = default;

  T* data() const { return static_cast<T*>(storage_.get()); }
  std::size_t size() const { return count_; }
  std::size_t size_bytes() const { return count_ * sizeof(T); }
  Device device() const { return device_; }

 private:
  std::shared_ptr<void> storage_;
  std::size_t count_ = 0;
  Device device_;
};

}  // namespace dist
