// A group of ranks that talk to each other: which rank this is, how many ranks there are, and
// which ranks are its neighbours.
#pragma once

#include <mpi.h>

namespace dist {

// Owns a duplicate of an MPI communicator, so that our messages are never confused with those
// of other code. Move-only. All of its ranks must create it together, and destroy it together.
class Communicator {
 public:
  static Communicator world();
  // For a process that has not called MPI_Init: rank 0 of 1.
  static Communicator alone() { return {}; }

  // Ranks that pass the same color form a new communicator, in the order of their keys.
  Communicator split(int color, int key) const;

  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  int rank() const { return rank_; }
  int size() const { return size_; }
  // The neighbours on the ring 0 -> 1 -> ... -> size - 1 -> 0.
  int left() const { return (rank_ + size_ - 1) % size_; }
  int right() const { return (rank_ + 1) % size_; }
  // This rank's place among the ranks on its host, and the number of those ranks.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }

  // Called on all ranks; returns once all ranks have called it.
  void barrier() const;
  // Called on all ranks. Returns true on all ranks if `ok` is true on all of them. If only one
  // rank knew of a failure, the others would continue.
  bool all_agree(bool ok) const;

  MPI_Comm get() const { return comm_; }

 private:
  Communicator() = default;
  explicit Communicator(MPI_Comm owned);

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
};

}  // namespace dist
