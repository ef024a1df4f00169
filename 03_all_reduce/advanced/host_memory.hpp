// What this file adds: memory that all ranks of one host share. Each rank contributes a piece
// and accesses every other rank's piece through a plain pointer: a store replaces a message.
// Look at: the memory has no name. The pieces come from memfd_create, and peers open them
// through /proc/PID/fd. So a killed job leaves no file in /dev/shm, and a container's limit of
// 64 MiB on /dev/shm does not apply. (MPI_Win_allocate_shared offers similar memory, from a
// file in a session folder, but freeing it is a collective call.)
#pragma once

#include "common/communicator.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace dist {

// Why these ranks cannot share memory, as a sentence; empty if they are all on one host. Sends
// no messages; the answer is the same on all ranks.
std::string why_no_host_memory(const Communicator& comm);
// For checking a command line: throws Error("--flag: shared-memory: why not").
void require_host_memory(const std::string& flag, const Communicator& comm);

// The destructor unmaps the memory. Each rank may do so at any time; the memory itself exists
// until the last rank has unmapped it.
class HostMemory {
 public:
  // Called on all ranks of `comm`, which must be on one host. Allocates `bytes` zeroed bytes
  // per rank, aligned to a page. Throws Error on all ranks if one of them cannot get its piece.
  HostMemory(const Communicator& comm, std::size_t bytes);
  HostMemory(HostMemory&&) noexcept = default;
  HostMemory& operator=(HostMemory&&) noexcept = default;

  // The piece that `rank` contributed.
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
