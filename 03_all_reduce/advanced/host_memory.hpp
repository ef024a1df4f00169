// What this file adds: memory that all ranks of one host see. Each rank brings a piece of its
// own and reaches every other rank's by a plain pointer: a store there is the message.
// Look at: nothing has a name. The pieces are memfd_create's, which peers open through
// /proc/PID/fd. So no file is left in /dev/shm when a job is killed, and a container's 64 MiB
// limit on /dev/shm does not apply. (MPI_Win_allocate_shared gives such memory too, from a file
// in a session folder, and freeing it is a collective call; this is not.)
#pragma once

#include "common/communicator.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace dist {

// Why these ranks can share no memory, as a sentence; empty if they are all on one host. Sends
// no message; the answer is the same on all ranks.
std::string why_no_host_memory(const Communicator& comm);
// For the check of a command line: throws Error("--flag: shared-memory: why not").
void require_host_memory(const std::string& flag, const Communicator& comm);

// Unmapped when it goes away. That is each rank's own affair, at any time, in any order: the
// memory itself stays as long as one rank still has it.
class HostMemory {
 public:
  // Called on all ranks of `comm`, which are on one host: `bytes` zeroed bytes per rank,
  // aligned to a page. Throws Error, on all ranks, if one of them cannot have it.
  HostMemory(const Communicator& comm, std::size_t bytes);
  HostMemory(HostMemory&&) noexcept = default;
  HostMemory& operator=(HostMemory&&) noexcept = default;

  // The piece that `rank` brought.
  std::byte* of(int rank) const { return pieces_[static_cast<std::size_t>(rank)].get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* begin) const;
  };
  using Piece = std::unique_ptr<std::byte, Unmap>;
  static Piece map(int file, std::size_t bytes);

  std::size_t bytes_;
  std::vector<Piece> pieces_;
};

}  // namespace dist
