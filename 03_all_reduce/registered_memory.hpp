// Memory that the message layer made itself, so that it can move it without a copy of its own.
#pragma once

#include "common/buffer.hpp"
#include "common/check.hpp"
#include "common/tensor.hpp"

#include <mpi.h>

#include <memory>
#include <utility>

namespace dist {

// A tensor for messages: on the CPU in memory of MPI_Alloc_mem, which a network card may have
// registered; on a GPU in its ordinary memory. Its contents are undefined. It must go away
// before MPI does.
inline Tensor allocate_registered(Shape shape, Device device) {
  if (!device.is_cpu()) return {std::move(shape), device};
  const std::size_t bytes = bytes_of(numel(shape), sizeof(float));
  void* memory = nullptr;
  // + 1: for 0 bytes MPI may give no memory at all
  MPI_CHECK(MPI_Alloc_mem(static_cast<MPI_Aint>(bytes + 1), MPI_INFO_NULL, &memory));
  const std::shared_ptr<void> owner(memory, [](void* p) { MPI_Free_mem(p); });
  return {owner, static_cast<float*>(memory), std::move(shape), device};
}

}  // namespace dist
