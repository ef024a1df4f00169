// Shared by most checks: data that tells where it came from, memory with guard zones, sums of
// the ranks' shares, and traffic.
#pragma once

#include "02_broadcast/chunks.hpp"
#include "common/join.hpp"
#include "tools/exercises/counted.hpp"
#include "tools/exercises/exercise.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace dist::exercise {

// Elements: more than MPI buffers, and than an array of a fixed length is likely to have.
inline constexpr std::size_t kLarge = 9 << 18;  // 9 MiB of floats
inline const std::string kLargeMust = "it must work for messages too large for MPI to buffer";
inline const std::string kWaitsMust =
    "no send or receive may still be in progress when the call returns";
inline const std::string kCollectiveHint =
    "a collective returns only when all ranks of its communicator have called it. Use single "
    "messages: this exercise needs no collective, and no barrier";
inline const std::string kSameBitsMust = "all ranks must get the same bits";

// Memory in which reading is a crash, to both sides of where an empty span begins. judge.py
// knows its address.
inline float* no_memory() {
  static float* const middle = [] {
    constexpr std::size_t kHalf = 1 << 20;  // bytes
    void* const begins = ::mmap(reinterpret_cast<void*>(0x3a5000000000), 2 * kHalf, PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begins == MAP_FAILED) throw Error("no memory for the checks");
    return reinterpret_cast<float*>(static_cast<char*>(begins) + kHalf);
  }();
  return middle;
}

// `count` floats between two zones filled with a number that no solution computes, so that a
// write out of bounds is reported instead of causing a crash elsewhere. That number is not NaN:
// NaN plus anything is NaN, so an addition would go unnoticed. Each rank's mark is another
// number, because what a solution receives beyond its data's end may be another rank's mark. If
// `count` is 0, even reading is a crash.
class Guarded {
 public:
  explicit Guarded(std::size_t count, float fill = 0.0F)
      : mark_(-77777.25F - static_cast<float>(::getpid() % 9973)),
        memory_(count + 2 * kZone, mark_),
        count_(count) {
    std::ranges::fill(span(), fill);
  }

  std::span<float> span() {
    return count_ == 0 ? std::span(no_memory(), 0) : std::span(memory_).subspan(kZone, count_);
  }
  std::span<const float> span() const { return const_cast<Guarded*>(this)->span(); }
  // The first `count` floats, after which others may be read.
  std::span<const float> first(std::size_t count) const {
    return count == 0 ? std::span<const float>(no_memory(), 0) : span().first(count);
  }

  // True if both zones are unchanged.
  bool intact() const {
    const auto untouched = [this](float value) { return value == mark_; };
    const std::span<const float> all(memory_);
    return std::ranges::all_of(all.first(kZone), untouched) &&
           std::ranges::all_of(all.last(kZone), untouched);
  }

 private:
  static constexpr std::size_t kZone = 64;
  float mark_;
  std::vector<float> memory_;
  std::size_t count_;
};

// The `count` elements of data that `rank` starts with.
inline Guarded tracers(const Trial& trial, int rank, std::size_t count) {
  Guarded data(count);
  for (std::size_t i = 0; i < count; ++i) data.span()[i] = trial.value(rank, i);
  return data;
}

// A guarded copy.
inline Guarded guarded(std::span<const float> numbers) {
  Guarded copy(numbers.size());
  std::ranges::copy(numbers, copy.span().begin());
  return copy;
}

// The same number of elements on each rank.
inline SmallRun equal_lengths(int ranks, std::size_t length, int root = 0) {
  return {std::vector<std::size_t>(static_cast<std::size_t>(ranks), length), root};
}

// What `right` elements of `all` show, of which element `first` is the first that is wrong.
inline Seen seen_in(std::size_t first, std::size_t right, std::size_t all) {
  const bool is_quarter =
      all >= 8 && first == right && (all / 4 == right || (all + 3) / 4 == right);
  return is_quarter ? Seen::a_quarter : Seen::something_else;
}

// Whether a number, or a mean or sum with it, may be from memory that had been freed, which
// glibc fills with bytes 0x5a while solutions are judged (job.py).
inline bool is_of_freed_memory(double number) {
  return std::abs(number) > 1e15 && std::abs(number) < 1e18;
}

// What else is known of the wrong number `value` at `index`, if anything.
using SeenOf = std::function<Seen(std::size_t index, float value)>;

inline bool is_near(double value, double other) {
  return std::abs(value - other) <= 1e-6 * std::abs(other);
}

// Checks that every element of `data` equals expected(index), within the relative `tolerance`.
template <class Expected>
void expect_values(Trial& trial, std::span<const float> data, const std::string& where,
                   const Expected& expected, double tolerance = 0, const SeenOf& seen_of = {}) {
  std::size_t right = 0;
  std::optional<std::size_t> first;  // that is wrong
  bool is_gone = false;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const double want = expected(i);
    if (std::abs(data[i] - want) <= tolerance * std::abs(want)) {
      ++right;
      continue;
    }
    if (!is_gone && is_of_freed_memory(data[i])) first = i, is_gone = true;
    if (!first) first = i;
  }
  if (!first) return;
  const Seen known = seen_of ? seen_of(*first, data[*first]) : Seen::something_else;
  trial.wrong(
      fmt::format("{}{} elements, of which {} are right: element {} is {:.9g}, expected "
                  "{:.9g}{}",
                  where, data.size(), right, *first, data[*first], expected(*first),
                  data[*first] == -1
                      ? " (-1: what stood there, or on another rank, before the call)"
                      : ""),
      is_gone                         ? Seen::gone
      : std::isnan(data[*first])      ? Seen::nan
      : known != Seen::something_else ? known
                                      : seen_in(*first, right, data.size()));
}

inline void expect_intact(Trial& trial, const Guarded& data, const std::string& where) {
  trial.expect(Seen::out_of_bounds, data.intact(),
               "{}{} elements: something was written out of bounds", where, data.span().size());
}

// Called on all ranks. Compares each rank's `data` with rank 0's, bit by bit.
inline void expect_same_bits(Trial& trial, std::span<const float> data,
                             const std::string& where = "") {
  const CallScope over(kOver);
  std::vector<float> of_rank_0(data.begin(), data.end());
  MPI_CHECK(
      MPI_Bcast(of_rank_0.data(), mpi_count(data.size()), MPI_FLOAT, 0, trial.comm().get()));
  for (std::size_t i = 0; i < data.size(); ++i) {
    trial.expect(data[i] == of_rank_0[i], "{}element {} is {:.9g} here, but {:.9g} on rank 0",
                 where, i, data[i], of_rank_0[i]);
  }
}

// A rank's share of a sum that shows which shares it contains, and how often: the sum has one
// decimal digit per rank. A float holds the sum exactly for up to 7 ranks, even if each share
// is counted up to nine times.
inline float share_of(int rank) {
  return static_cast<float>(std::pow(10, rank));
}

// What is wrong with a number, for example "rank 2's share is missing, rank 0's share is
// counted 2 times"; `text` is empty if every share is counted exactly once.
struct Off {
  std::string text{};
  Seen seen = Seen::something_else;
};

// Tolerates that the sum was divided and multiplied.
inline Off what_is_off(float sum, int ranks) {
  if (sum == 0) return {"there is 0", Seen::zero};
  if (!(sum >= 0 && sum < share_of(8)))
    return {fmt::format("{:.9g} is not a sum of the ranks' shares", sum),
            is_of_freed_memory(sum) ? Seen::gone : Seen::something_else};
  double right = 0;
  for (int rank = 0; rank < ranks; ++rank) right += share_of(rank);
  const auto is = [&](double must) { return std::abs(sum - must) <= 1e-5 * must; };
  if (ranks > 1 && is(ranks * right))
    return {"the number is N times too large", Seen::times_ranks};
  if (ranks > 1 && is(right / ranks))
    return {"the number is N times too small", Seen::over_ranks};
  if (std::abs(sum - std::round(sum)) > 1e-4 * sum) {  // a sum of whole shares is whole
    const double factor = sum / right;
    return {factor < 1 ? fmt::format("the number is {:.3g} times too small", 1 / factor)
                       : fmt::format("the number is {:.3g} times too large", factor),
            Seen::scaled};
  }
  for (int rank = 0; rank < ranks && ranks > 1; ++rank) {
    if (is(double{share_of(rank)} * ranks)) {
      return {fmt::format("there is only rank {}'s share, {} times", rank, ranks),
              Seen::copied_first};
    }
  }
  std::vector<std::string> off;
  auto rest = static_cast<std::uint32_t>(std::round(sum));
  for (int rank = 0; rank < ranks; ++rank, rest /= 10) {
    const std::uint32_t times = rest % 10;
    if (times == 0) off.push_back(fmt::format("rank {}'s share is missing", rank));
    if (times > 1)
      off.push_back(fmt::format("rank {}'s share is counted {} times", rank, times));
  }
  return {join(off, ", ")};
}

// Called on all ranks.
inline Traffic traffic_in(const Trial& trial, const std::function<void()>& run) {
  return counted(trial.comm(), run, kOver);
}

// The most elements that a rank sends in a ring all-reduce of `count`: all chunks but its own
// in the first half, and all but its right neighbour's in the second.
inline std::uint64_t ring_elements(std::size_t count, int ranks) {
  std::uint64_t most = 0;
  for (int rank = 0; rank < ranks && ranks > 1; ++rank) {
    const std::size_t own = chunk_range(count, ranks, rank).count;
    most = std::max<std::uint64_t>(most,
                                   2 * count - own - chunk_range(count, ranks, rank + 1).count);
  }
  return most;
}

// What `run`, which is called on all ranks, may send. Fields that are not set are not checked.
struct MustSend {
  std::optional<std::uint64_t> messages{}, messages_per_rank{}, bytes_per_rank{}, rounds{};
  std::optional<std::vector<int>> peers_of_rank_0{};
};

// Expects this, and no call of a collective.
inline void expect_traffic(Trial& trial, const std::string& where, const MustSend& must,
                           const std::function<void()>& run) {
  const Traffic traffic = traffic_in(trial, run);
  const auto equal = [&](const char* what, std::uint64_t got,
                         std::optional<std::uint64_t> want) {
    if (!want) return;
    const bool are_bytes = must.bytes_per_rank == want && !must.messages;
    trial.expect(are_bytes && got == 2 * *want ? Seen::doubled
                 : got > *want                 ? Seen::too_many
                                               : Seen::too_few,
                 got == *want, "{}{}: {}, expected {}", where, what, got, *want);
    trial.counts()[what] = fmt::format("{} / {}", got, *want);
  };
  trial.expect(Seen::collective, traffic.collectives == 0, "{}it calls MPI's collectives",
               where);
  equal("messages in total", traffic.messages, must.messages);
  equal("most messages sent by a rank", traffic.messages_per_rank, must.messages_per_rank);
  equal("most bytes sent by a rank", traffic.bytes_per_rank, must.bytes_per_rank);
  equal("rounds", traffic.rounds, must.rounds);
  const std::vector<int> peers = must.peers_of_rank_0.value_or(traffic.peers);
  trial.expect(traffic.peers == peers, "{}rank 0 sends to the ranks {}, expected {}", where,
               join(traffic.peers, " "), join(peers, " "));
}

// Expects every receive to name its source.
inline void expect_named(Trial& trial, const std::function<void()>& run) {
  const std::uint64_t found = traffic_in(trial, run).from_anyone;
  trial.expect(Seen::from_anyone, found == 0, "{} receive{} a message from any rank", found,
               found == 1 ? " takes" : "s take");
}

inline void expect_finished(Trial& trial, const std::function<void()>& run) {
  const std::uint64_t unfinished = traffic_in(trial, run).unfinished;
  trial.expect(Seen::unfinished, unfinished == 0,
               "{} sends or receives were started but not waited for", unfinished);
}

}  // namespace dist::exercise
