// A group of ranks that talk to each other: this rank's number, its neighbours, and the size.
#pragma once

#include "common/check.hpp"

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

namespace dist {

// Owns an MPI communicator, so that our messages are never confused with those of other code.
// Move-only. All of its ranks must create it together, and destroy it together.
class Communicator {
 public:
  // All ranks of the job. Asks MPI once which of them share a host.
  static Communicator world();
  // For a process that has not called MPI_Init: rank 0 of 1.
  static Communicator alone() { return {}; }

  // Each of these makes a new communicator in one collective call.
  Communicator duplicate() const;
  // Ranks that pass the same color form one, in the order of their keys.
  Communicator split(int color, int key) const;
  // The ranks on the same host form one, in the same order.
  Communicator split_by_host() const;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // The neighbours on the ring 0 -> 1 -> ... -> size - 1 -> 0.
  int left() const { return (rank_ + size_ - 1) % size_; }
  int right() const { return (rank_ + 1) % size_; }
  // This process's place among the job's ranks on its host, and the number of those ranks:
  // every communicator has the world's answer.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }

  // Called on all ranks; returns once all ranks have called it.
  void barrier() const;
  // Called on all ranks. Returns true on all ranks if `ok` is true on all of them. If only one
  // rank knew of a failure, the others would continue.
  bool all_agree(bool ok) const;
  // Called on all ranks. Returns the lowest rank on which `ok` is false, if there is one.
  std::optional<int> first_to_disagree(bool ok) const;
  // Called on all ranks. Returns every rank's `mine`, in the order of the ranks, on all ranks.
  template <class T>
  std::vector<T> all_gather(const T& mine) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (size_ == 1) return {mine};
    std::vector<T> all(static_cast<std::size_t>(size_));
    constexpr int kBytes = sizeof(T);
    MPI_CHECK(MPI_Allgather(&mine, kBytes, MPI_BYTE, all.data(), kBytes, MPI_BYTE, get()));
    return all;
  }

  MPI_Comm get() const { return comm_ ? *comm_ : MPI_COMM_NULL; }

 private:
  Communicator() = default;
  Communicator(MPI_Comm owned, const Communicator& parent);

  struct Free {
    void operator()(MPI_Comm* comm) const;
  };
  std::unique_ptr<MPI_Comm, Free> comm_;  // empty in a process without MPI
  int rank_ = 0, size_ = 1;
  int local_rank_ = 0, local_size_ = 1;
};

}  // namespace dist
