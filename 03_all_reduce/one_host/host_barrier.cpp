#include "03_all_reduce/one_host/host_barrier.hpp"

#include "common/check.hpp"
#include "common/join.hpp"
#include "common/watch.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <atomic>
#include <sched.h>
#include <thread>
#include <vector>

namespace dist {
namespace {

// A rank polls for this long before it sleeps, because waking up takes a while.
constexpr std::chrono::milliseconds kPolling(1), kLongestNap(1);

using Shared = std::atomic_ref<std::uint32_t>;
static_assert(Shared::is_always_lock_free, "a lock would not be shared between processes");

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether there are more ranks than cores available to them.
bool more_ranks_than_cores(const Communicator& comm) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  ::sched_getaffinity(0, sizeof cores, &cores);
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &cores, sizeof cores, MPI_BYTE, MPI_BOR, comm.get()));
  return comm.size() > CPU_COUNT(&cores);
}

}  // namespace

HostBarrier::HostBarrier(const Communicator& comm, std::chrono::milliseconds limit)
    : comm_(comm), limit_(limit), memory_(comm, sizeof(Entry)) {
  MPI_CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &entry(comm_.rank()).world_rank));
  crowded_ = more_ranks_than_cores(comm);  // this waits until all entries have their numbers
}

bool HostBarrier::has_arrived(int rank) const {
  const std::uint32_t arrived = Shared(entry(rank).arrived).load();
  // Test the sign of the difference, because the counts wrap around after 2^32 rounds.
  return static_cast<std::int32_t>(arrived - round_) >= 0;
}

void HostBarrier::wait() {
  if (comm_.size() == 1) return;
  ++round_;
  Shared(entry(comm_.rank()).arrived).store(round_);
  for (int rank = 0; rank < comm_.size(); ++rank) wait_for(rank);
}

void HostBarrier::wait_for(int rank) {
  // Reading the clock takes longer than a look, so it is read only now and then.
  constexpr int kLooks = 64;
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin;
  for (int look = 1; !has_arrived(rank); ++look) {
    if (crowded_) {
      ::sched_yield();  // the rank that we wait for may need this core
    } else {
      pause();
    }
    if (look % kLooks != 0) continue;
    const Clock::time_point now = Clock::now();
    if (look == kLooks) begin = now;
    if (now - begin >= kPolling) return sleep_until_arrived(rank);
  }
}

void HostBarrier::sleep_until_arrived(int rank) {
  // Without this object, a hang report would say that the rank is computing.
  const WaitScope wait("the barrier of the shared-memory all-reduce", comm_);
  // Each nap is an eighth of the time before it, so sleeping delays a rank by little. The sum
  // of the naps leaves out any time when the process was stopped; a clock would not.
  std::chrono::microseconds slept = kPolling;
  while (!has_arrived(rank) && slept < limit_) {
    const auto nap = std::min<std::chrono::microseconds>(slept / 8, kLongestNap);
    std::this_thread::sleep_for(nap);
    slept += nap;
  }
  if (has_arrived(rank)) return;
  std::vector<int> missing;
  for (int other = 0; other < comm_.size(); ++other) {
    if (!has_arrived(other)) missing.push_back(entry(other).world_rank);
  }
  throw Error(fmt::format(
      "the shared-memory all-reduce waited {} ms for rank{} {}, which did not arrive",
      limit_.count(), missing.size() == 1 ? "" : "s", join(missing, ", ")));
}

void HostBarrier::meet(const Call& call) {
  const std::size_t turn = calls_++ % 2;
  entry(comm_.rank()).calls[turn] = call;
  wait();
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const Call& other = entry(rank).calls[turn];
    if (other == call) continue;
    const char* const what = other.bytes != call.bytes ? "with a different number of elements"
                             : other.memory != call.memory ? "with a different tensor"
                             : other.op != call.op         ? "with a different operation"
                                                           : "with a different element type";
    const std::string bytes = other.bytes == call.bytes
                                  ? fmt::format("both of {} bytes", call.bytes)
                                  : fmt::format("{} bytes and {}", other.bytes, call.bytes);
    throw Error(fmt::format("rank {} called the all-reduce {} than rank {}: {}",
                            entry(rank).world_rank, what, entry(comm_.rank()).world_rank,
                            bytes));
  }
}

}  // namespace dist
