// "Device" memory: host memory that only streams may touch.
#pragma once

#include <cstddef>

namespace emulation {

// Returns `bytes` of poisoned memory (every float is a NaN), or null. If the processor has
// protection keys, a thread other than a stream's that touches the memory aborts the program.
void* allocate_device(std::size_t bytes);
void free_device(void* memory);
bool is_device(const void* memory);

// Called once by each stream's thread, which may touch device memory from then on.
void allow_device_memory();

}  // namespace emulation
