// "Device" memory: host memory that only streams may touch. Each GPU has its own range of
// addresses, as has pinned memory, and no address is used twice.
#pragma once

#include <cstddef>
#include <optional>

namespace emulation {

// Whose memory an address is: a GPU's number, or kPinned for host memory that any GPU may read
// and write.
constexpr int kPinned = 8;

// Returns `bytes` of poisoned memory (every float is a NaN), or null if no room is left. If the
// processor has protection keys, a thread other than a stream's that touches a GPU's memory
// ends the program. On every processor, touching freed memory ends the program.
void* allocate(std::size_t bytes, int owner);
void release(void* memory);
// nullopt: pageable host memory
std::optional<int> owner_of(const void* memory);

struct Room {
  std::size_t free, total;
};
Room room_on(int device);

// Called once by each stream's thread, which may touch device memory from then on.
void allow_device_memory();

}  // namespace emulation
