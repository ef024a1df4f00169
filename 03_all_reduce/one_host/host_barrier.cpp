#include "03_all_reduce/one_host/host_barrier.hpp"

#include "common/check.hpp"
#include "common/join.hpp"
#include "common/watch.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <atomic>
#include <ctime>
#include <linux/futex.h>
#include <optional>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace dist {
namespace {

// A rank polls for this long before it sleeps, because waking a rank takes about as long.
constexpr std::chrono::microseconds kPolling(50);
constexpr std::chrono::milliseconds kTick(100);

using Shared = std::atomic_ref<std::uint32_t>;
static_assert(Shared::is_always_lock_free, "a lock would not be shared between processes");

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Sleeps while `word` is `value`, for at most one tick.
void futex_wait(std::uint32_t& word, std::uint32_t value) {
  const timespec tick{0, std::chrono::nanoseconds(kTick).count()};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &tick, nullptr, 0);
}

void futex_wake_all(std::uint32_t& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
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
    : comm_(comm),
      rank_(comm.rank()),
      size_(comm.size()),
      limit_(limit),
      memory_(comm, sizeof(Entry) + sizeof(Sleepers)) {
  MPI_CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &entry(rank_).world_rank));
  crowded_ = more_ranks_than_cores(comm);  // this waits until all entries have their numbers
}

HostBarrier::Entry& HostBarrier::entry(int rank) const {
  return *reinterpret_cast<Entry*>(memory_.of(rank));
}

HostBarrier::Sleepers& HostBarrier::sleepers() const {
  return *reinterpret_cast<Sleepers*>(memory_.of(0) + sizeof(Entry));
}

bool HostBarrier::has_arrived(int rank) const {
  const std::uint32_t arrived = Shared(entry(rank).arrived).load();
  // Test the sign of the difference, because the counts wrap around after 2^32 rounds.
  return static_cast<std::int32_t>(arrived - round_) >= 0;
}

bool HostBarrier::all_arrived() {
  while (seen_ < size_ && has_arrived(seen_)) ++seen_;
  return seen_ == size_;
}

void HostBarrier::wait() {
  if (size_ == 1) return;
  ++round_;
  seen_ = 0;
  Shared(entry(rank_).arrived).store(round_);
  if (!all_arrive_soon()) sleep_until_all_arrived();
  wake_sleepers();
}

bool HostBarrier::all_arrive_soon() {
  // Reading the clock takes longer than a look, so it is read only now and then. How long a
  // pause lasts differs from processor to processor.
  constexpr int kLooks = 64;
  using Clock = std::chrono::steady_clock;
  for (std::optional<Clock::time_point> begin; true;) {
    for (int look = 0; look < kLooks; ++look) {
      if (all_arrived()) return true;
      if (crowded_) {
        ::sched_yield();  // the rank that we wait for may need this core
      } else {
        pause();
      }
    }
    const Clock::time_point now = Clock::now();
    if (!begin) begin = now;
    if (now - *begin >= kPolling) return false;
  }
}

// No wake-up is lost: a sleeper increments their count and then checks the entries once
// more; the last rank to arrive marks its entry and then checks the count. All ranks see these
// four operations in the same order (sequential consistency), so at least one of the two ranks
// sees what the other has written.
void HostBarrier::sleep_until_all_arrived() {
  // Without this object, a hang report would say that the rank is computing.
  const WaitScope wait("the barrier of the shared-memory all-reduce", comm_);
  const auto begin = Shared(sleepers().round).load();
  Shared(sleepers().count).fetch_add(1);
  std::chrono::milliseconds slept{};
  for (std::uint32_t round = begin; !all_arrived(); round = Shared(sleepers().round).load()) {
    if (slept >= limit_) {
      Shared(sleepers().count).fetch_sub(1);
      give_up();
    }
    const auto before = std::chrono::steady_clock::now();
    futex_wait(sleepers().round, round);
    slept += std::min(kTick, std::chrono::ceil<std::chrono::milliseconds>(
                                 std::chrono::steady_clock::now() - before));
  }
  Shared(sleepers().count).fetch_sub(1);
}

void HostBarrier::wake_sleepers() const {
  if (Shared(sleepers().count).load() == 0) return;
  if (Shared(sleepers().round).exchange(round_) == round_) return;  // another rank wakes them
  futex_wake_all(sleepers().round);
}

void HostBarrier::give_up() const {
  std::vector<int> missing;
  for (int rank = 0; rank < size_; ++rank) {
    if (!has_arrived(rank)) missing.push_back(entry(rank).world_rank);
  }
  throw Error(fmt::format(
      "the shared-memory all-reduce waited {} ms for rank{} {}, which did not arrive",
      limit_.count(), missing.size() == 1 ? "" : "s", join(missing, ", ")));
}

void HostBarrier::meet(const Call& call) {
  const std::size_t turn = calls_++ % 2;
  entry(rank_).calls[turn] = call;
  wait();
  for (int rank = 0; rank < size_; ++rank) {
    const Call& other = entry(rank).calls[turn];
    if (other == call) continue;
    const char* const what = other.bytes != call.bytes ? "with a different number of elements"
                             : other.memory != call.memory ? "with a different tensor"
                             : other.op != call.op         ? "with a different operation"
                                                           : "with a different element type";
    throw Error(fmt::format("rank {} called the all-reduce {} than rank {}: {} bytes and {}",
                            entry(rank).world_rank, what, entry(rank_).world_rank, other.bytes,
                            call.bytes));
  }
}

}  // namespace dist
