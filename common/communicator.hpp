// A group of ranks that talk to each other: who I am, how many we are, who sits beside me.
#pragma once

#include <mpi.h>

namespace dist {

// How a thread waits for messages. MPI asks for them over and over, which is fastest where a
// core is free for it. Where none is, a thread whose messages travel while others compute waits
// patiently: it sleeps in between (01, patient_wait).
enum class WaitPolicy { spin, patient };

// Owns a duplicate of an MPI communicator, so that our tags never meet anyone else's messages.
// Move-only. Made and destroyed on all of its ranks together.
class Communicator {
 public:
  static Communicator world();
  // One process that has not called MPI_Init: rank 0 of 1, with nobody to talk to.
  static Communicator alone() { return {}; }

  // Ranks that give the same color form one new communicator, in the order of key.
  Communicator split(int color, int key) const;
  // The same ranks once more, for messages of their own that are waited for in this way.
  Communicator duplicate(WaitPolicy policy) const;

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
  // This rank's place among the ranks of its own host, and how many those are.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }

  // Called on all ranks; returns when all have called it.
  void barrier() const;
  // Called on all ranks. True on all ranks if `ok` was true on all of them: a verdict that only
  // one rank knows would let the others go on.
  bool all_agree(bool ok) const;

  MPI_Comm get() const { return comm_; }
  WaitPolicy wait_policy() const { return wait_policy_; }

 private:
  Communicator() = default;
  explicit Communicator(MPI_Comm owned, WaitPolicy policy = WaitPolicy::spin);

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  WaitPolicy wait_policy_ = WaitPolicy::spin;
};

}  // namespace dist
