#include "03_all_reduce/one_host/shared_memory.hpp"

namespace dist {

SharedMemoryAllReduce::SharedMemoryAllReduce(const Communicator& comm,
                                             std::chrono::milliseconds limit)
    : rank_(comm.rank()),
      size_(comm.size()),
      barrier_(comm, limit),
      segment_(comm, 2 * kSmallBytes + 4 * shared_memory::kBlockBytes),
      sources_(static_cast<std::size_t>(comm.size())),
      targets_(std::max<std::size_t>(2, static_cast<std::size_t>(comm.size()))) {}

std::shared_ptr<std::byte> SharedMemoryAllReduce::allocate(const Communicator& comm,
                                                           std::size_t bytes) {
  const auto owner = std::make_shared<Registered>(HostMemory(comm, bytes), next_number_);
  // Consecutive numbers differ by the memory's size, so that each number + offset is unique.
  next_number_ += owner->memory.bytes();
  std::byte* const begin = owner->memory.of(rank_);
  registered_[begin] = owner;
  return {owner, begin};
}

SharedMemoryAllReduce::Position SharedMemoryAllReduce::find(const void* data,
                                                            std::size_t bytes) {
  const auto* const address = static_cast<const std::byte*>(data);
  const auto after = registered_.upper_bound(address);
  if (after == registered_.begin()) return {};
  const auto found = std::prev(after);
  const std::shared_ptr<Registered> owner = found->second.lock();
  if (!owner) {
    // This rank has freed the memory, so the address may now belong to something else.
    registered_.erase(found);
    return find(data, bytes);
  }
  const auto offset = static_cast<std::size_t>(address - found->first);
  if (offset + bytes > owner->memory.bytes()) return {};
  return {owner, offset};
}

}  // namespace dist
