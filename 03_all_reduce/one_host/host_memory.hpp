// What this file adds: memory that all ranks of one host share. Each rank contributes a piece
// and accesses every other rank's piece through a plain pointer: a store replaces a message.
// Look at: the constructor, which creates memory without a name. The pieces come from
// memfd_create, and peers open them through /proc/PID/fd. A killed job therefore leaves no file
// in /dev/shm, and a container's 64 MiB limit on /dev/shm does not apply.
// (MPI_Win_allocate_shared offers similar memory, but in a file in a session folder, and
// freeing it is a collective call.)
#pragma once

#include "common/communicator.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace dist {

// The reason why `ranks` ranks, of which `ranks_here` are on this host, cannot share memory, as
// a sentence; empty if they are all on one host. All ranks get the same answer.
std::string why_no_host_memory(int ranks, int ranks_here);
// Throws an Error that names the flag and the reason if the job's ranks cannot share memory.
void require_host_memory(const std::string& flag, const Communicator& comm);

// The destructor unmaps the memory. Each rank may destroy its object at any time; the memory
// itself exists until the last rank has unmapped it.
class HostMemory {
 public:
  // Called on all ranks of `comm`, which must be on one host. Allocates `bytes` zeroed bytes
  // per rank, aligned to a page. Throws Error on all ranks if any rank cannot get its piece.
  HostMemory(const Communicator& comm, std::size_t bytes);

  // The piece that `rank` contributed.
  std::byte* of(int rank) const { return pieces_[static_cast<std::size_t>(rank)].get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::vector<std::shared_ptr<std::byte>> pieces_;
};

}  // namespace dist
