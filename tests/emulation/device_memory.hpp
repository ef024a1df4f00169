// "Device" memory: host memory that only streams may touch.
#pragma once

#include <cstddef>

namespace emulation {

// `bytes` of poisoned memory (every float is a NaN), or null. If the processor has protection
// keys and a thread other than a stream touches it, the program prints why and aborts.
void* allocate_device(std::size_t bytes);
void free_device(void* memory);
bool is_device(const void* memory);

// Called once by each stream's thread: from then on it may touch device memory.
void allow_device_memory();

}  // namespace emulation
