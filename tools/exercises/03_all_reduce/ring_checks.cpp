// Checks of the ring's two halves and of the whole ring: values, shares, messages and bytes.
#include "02_broadcast/chunks.hpp"
#include "03_all_reduce/ring.hpp"
#include "tools/exercises/03_all_reduce/ring_traffic.hpp"

namespace dist::exercise {
namespace {

std::vector<std::size_t> sizes(const Trial& trial) {
  const std::size_t n = trial.n();
  return {n, n + 1, 3 * n + 1, 997, n - 1, 1, 0};
}

// The elements that must be right on this rank: the sums in its own chunk, or all averages.
enum class Part { own_chunk, everything };

ChunkRange range_of(const Trial& trial, std::size_t count, Part part) {
  return part == Part::everything ? ChunkRange{0, count} : chunk_of(trial, count, trial.rank());
}

// After a reduce-scatter, adds to `off` which other chunk on this rank has more shares.
void look_elsewhere(const Trial& trial, std::span<const float> data, Off& off) {
  for (int c = 0; c < trial.size() && off.seen == Seen::something_else; ++c) {
    const float sum = data[chunk_of(trial, data.size(), c).begin];
    if (what_is_off(sum, trial.size()).text.empty()) {
      off = {fmt::format("{}; chunk {} has all shares instead", off.text, c), Seen::elsewhere};
    }
  }
  for (int c = 0; c < trial.size() && off.seen == Seen::something_else; ++c) {
    const float sum = data[chunk_of(trial, data.size(), c).begin];
    const std::string text = what_is_off(sum, trial.size()).text;
    const bool one_missing = text.ends_with("missing") && text.find(',') == std::string::npos;
    if (one_missing && trial.size() > 2) {
      off = {fmt::format("{}; chunk {} has all shares but one", off.text, c), Seen::too_few};
    }
  }
}

// Expects every rank's share exactly once in each element of the part.
Check shares_check(const OnSpan& solution, const std::string& must, const std::string& hint,
                   Part part, std::map<Seen, std::string> hints) {
  const bool average = part == Part::everything;
  return {"shares", must, hint,
          [=](Trial& trial) {
            for (const std::size_t count : {3 * trial.n(), trial.n()}) {
              Guarded data(count, share_of(trial.rank()));
              solution(trial.comm(), data.span());
              const auto factor = static_cast<float>(average ? trial.size() : 1);
              const ChunkRange range = range_of(trial, count, part);
              for (std::size_t i = range.begin; i < range.begin + range.count; ++i) {
                Off off = what_is_off(data.span()[i] * factor, trial.size());
                if (!average && !off.text.empty()) look_elsewhere(trial, data.span(), off);
                trial.expect(off.seen, off.text.empty(), "{} elements: in element {}, {}",
                             count, i, off.text);
              }
            }
          },
          std::move(hints)};
}

void expect_sums(Trial& trial, const OnSpan& solution, std::size_t count, Part part) {
  trial.call(fmt::format("{} elements", count));
  const bool average = part == Part::everything;
  Guarded data = tracers(trial, trial.rank(), count);
  solution(trial.comm(), data.span());
  const bool was_right = trial.mistake().empty();
  const ChunkRange range = range_of(trial, count, part);
  expect_values(
      trial, data.span(), "",
      [&](std::size_t i) {
        if (i - range.begin >= range.count) return double{data.span()[i]};
        return average ? trial.mean(i) : trial.sum(i);
      },
      average ? 1e-6 : 0);
  if (count % trial.n() != 0) {
    trial.wrong_in(was_right, count < trial.n() ? Seen::fewer : Seen::uneven);
  }
}

// Numbers whose sums over the ranks are not exact; every second one is negative.
std::vector<float> inexact_numbers(int rank, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) {
    data[i] = 1.0F / static_cast<float>(3 * rank + 7) + 0.1F * static_cast<float>(i);
    if (i % 2 == 1) data[i] = -data[i];
  }
  return data;
}

void expect_inexact_sums(Trial& trial, const OnSpan& solution, Part part) {
  const std::size_t count = 5 * trial.n() + 1;
  std::vector<double> sums(count);
  for (int rank = 0; rank < trial.size(); ++rank) {
    const std::vector<float> theirs = inexact_numbers(rank, count);
    for (std::size_t i = 0; i < count; ++i) sums[i] += theirs[i];
  }
  std::vector<float> data = inexact_numbers(trial.rank(), count);
  solution(trial.comm(), data);
  const ChunkRange range = range_of(trial, count, part);
  expect_values(
      trial, data, "numbers with fractions, ",
      [&](std::size_t i) {
        if (i - range.begin >= range.count) return double{data[i]};
        return part == Part::everything ? sums[i] / trial.size() : sums[i];
      },
      1e-5);
}

Check values_check(const OnSpan& solution, const std::string& must, const std::string& hint,
                   Part part) {
  return {"values",
          must,
          hint,
          [=](Trial& trial) {
            for (const std::size_t count : sizes(trial))
              expect_sums(trial, solution, count, part);
            const bool was_right = trial.mistake().empty();
            expect_inexact_sums(trial, solution, part);
            trial.wrong_in(was_right, Seen::single);
          },
          {{Seen::fewer,
            "with fewer elements than ranks some chunks are empty, and all others must still "
            "be added up: every rank takes part in every step"},
           {Seen::single,
            "only numbers with fractions are wrong: which type do they pass through?"}}};
}

Check large_check(const OnSpan& solution, Part part, std::uint64_t halves) {
  return {"large", kLargeMust,
          "a chunk of a large tensor must be received in full, and every element of it added",
          [=](Trial& trial) {
            expect_traffic(trial, "", {.messages_per_rank = halves * (trial.n() - 1)},
                           [&] { expect_sums(trial, solution, kLarge + trial.n() + 1, part); });
          }};
}

// Hints for what is seen when a ring hangs.
const std::map<Seen, std::string> kRingHints{
    {Seen::hang,
     "a rank waits for a message that is never sent to it: every rank sends to its right and "
     "receives from its left, in the same number of steps, even if a chunk is empty"},
    {Seen::sends,
     "MPI_Send may wait until the receiver is ready. If every rank sends first, none receives. "
     "Small messages may work because MPI buffers them. Use send_recv to send and receive at "
     "once"},
    {Seen::receives, "every rank is in a receive, so nobody has sent. Use send_recv"},
    {Seen::collectives, kCollectiveHint}};

// Calls the solution with `count` numbers, and expects nothing outside them to change.
void expect_guards(Trial& trial, const OnSpan& solution, std::size_t count) {
  trial.call(fmt::format("{} elements", count));
  Guarded data = tracers(trial, trial.rank(), count);
  solution(trial.comm(), data.span());
  expect_intact(trial, data, "");
}

Check guard_check(const OnSpan& solution) {
  return {"guard-zones", "it must work for every length, and write nothing outside the data",
          "receive exactly as many elements as the arriving chunk has, and write only to its "
          "place. If N does not divide the length, the first chunks are one longer, and a "
          "vector that you receive into must hold the longest",
          [=](Trial& trial) {
            for (const std::size_t count : sizes(trial)) expect_guards(trial, solution, count);
          }};
}

// On rank r, only chunk r is finished before the call.
void expect_gathered(Trial& trial, const OnSpan& solution, std::size_t count) {
  trial.call(fmt::format("{} elements", count));
  Guarded data(count, -1.0F);
  std::vector<double> finished(count);
  for (int rank = 0; rank < trial.size(); ++rank) {
    const ChunkRange chunk = chunk_of(trial, count, rank);
    for (std::size_t i = chunk.begin; i < chunk.begin + chunk.count; ++i) {
      finished[i] = trial.value(rank, i);
      if (rank == trial.rank()) data.span()[i] = trial.value(rank, i);
    }
  }
  solution(trial.comm(), data.span());
  const bool was_right = trial.mistake().empty();
  expect_values(trial, data.span(), "", [&](std::size_t i) { return finished[i]; });
  if (count % trial.n() != 0) {
    trial.wrong_in(was_right, count < trial.n() ? Seen::fewer : Seen::uneven);
  }
}

}  // namespace

std::vector<Check> checks_of_ring_reduce_scatter(const OnSpan& solution) {
  const Ring ring{.solution = solution, .halves = 1};
  const std::vector<Check> checks{
      shares_check(
          solution, "chunk r on rank r must contain every rank's share exactly once",
          "follow one chunk. Chunk c leaves rank c + 1, every rank on its way adds its share, "
          "and it ends at rank c. If it has one share, what arrived was not added. If it has "
          "two, what was passed on was not the sum: it lacks this rank's share, or the "
          "others'. If it has a share twice, there was one step too many",
          Part::own_chunk,
          {{Seen::elsewhere,
            "the sum is in another chunk than the rank's own, so the first step sends the "
            "wrong chunk: chunk c leaves rank c + 1, so rank r begins with chunk r - 1"},
           {Seen::too_few,
            "the ring ends one step too early: after N - 1 steps, a chunk has been at all "
            "ranks"},
           {Seen::over_ranks,
            "this half only adds; the multiplication by 1 / N belongs to ring_all_reduce"},
           {Seen::scaled,
            "this half only adds: nothing is divided, and nothing halved on the way. The "
            "multiplication by 1 / N belongs to ring_all_reduce"},
           {Seen::zero,
            "in place of the sum, there is 0: leave each sum where its chunk lies in `data`, "
            "and write nothing else there"}}),
      ring.rightward_check(),
      guard_check(solution),
      values_check(solution, "chunk r on rank r must be the sum, for every length",
                   "unlike the shares before, these numbers have fractions, and some are "
                   "negative: is each of them added as it is, as a float?",
                   Part::own_chunk),
      ring.messages_check("every rank must send N - 1 messages, all to its right",
                          "use one send_recv per step, for N - 1 steps; a rank's finished "
                          "chunk is not sent again"),
      ring.bytes_check(
          "send one chunk per step, not the whole tensor. Whole tensors give the right result "
          "at N times the cost; many published ring all-reduces make this mistake"),
      large_check(solution, Part::own_chunk, 1),
  };
  return with_hints(checks, kRingHints);
}

std::vector<Check> checks_of_ring_all_gather(const OnSpan& solution) {
  const Ring ring{.solution = solution, .halves = 1, .gathers = true};
  const std::vector<Check> checks{
      {"values", "all ranks must get every finished chunk",
       "in each step after the first, a rank sends what it has just received. In the first one,"
       " it sends the chunk that it has (the other half began with another one)",
       [=](Trial& trial) {
         for (const std::size_t count : sizes(trial)) expect_gathered(trial, solution, count);
       }},
      ring.rightward_check(),
      guard_check(solution),
      ring.messages_check("every rank must send N - 1 messages, all to its right",
                          "use one send_recv per step, for N - 1 steps, after which every rank "
                          "has every chunk"),
      ring.bytes_check(
          "pass on only the chunk that has just arrived, not everything that you have so far"),
      {"large", kLargeMust, "a chunk of a large tensor must be received in full",
       [=](Trial& trial) { expect_gathered(trial, solution, kLarge + trial.n() + 1); }},
  };
  return with_hints(checks, kRingHints);
}

std::vector<Check> checks_of_ring_all_reduce(const OnSpan& solution) {
  const Ring ring{.solution = solution, .halves = 2};
  const std::vector<Check> checks{
      shares_check(
          solution, "the average must contain every rank's share exactly once",
          "every rank must add its share to what has just arrived and pass on the result. An "
          "average is multiplied by 1.0F / comm.size() once",
          Part::everything,
          {{Seen::times_ranks,
            "this is the sum. Either it is not multiplied by 1.0F / comm.size() at all, or a "
            "copy is (`for (float x : data)` copies each number), or it is done in a chunk "
            "that "
            "another rank completes and that is overwritten later"},
           {Seen::over_ranks,
            "divide once only: a finished chunk, on the rank that finished it"},
           {Seen::copied_first,
            "the two halves are in the wrong order: here, chunks are copied to all ranks before"
            " anything has been added to them. The reduce-scatter comes first"}}),
      ring.rightward_check(),
      guard_check(solution),
      values_check(solution,
                   "every element must be the average over all ranks, for every length",
                   "sum first, then multiply by 1.0F / comm.size(), once", Part::everything),
      ring.messages_check("every rank must send 2 (N - 1) messages, all to its right",
                          "send N - 1 messages in the reduce-scatter and N - 1 in the "
                          "all-gather"),
      ring.bytes_check(
          "each rank must send 2 (N - 1) / N of the tensor: one chunk per message"),
      {"same-bits", kSameBitsMust,
       "one rank must finish each chunk (sum and divide), and the others must copy it: if "
       "every rank adds or divides for itself, the results may be rounded differently",
       [=](Trial& trial) {
         std::vector<float> data = inexact_numbers(trial.rank(), 997);
         solution(trial.comm(), data);
         expect_same_bits(trial, data);
       }},
      {"bits",
       "every element must be the sum, multiplied by 1 / N afterwards",
       "add first; then the rank that has finished a chunk multiplies it by 1.0F / comm.size(),"
       " which is a float. Dividing each share first, dividing by N, or multiplying by a "
       "double, 1.0 / N, rounds differently, and ./learn mine compares bits",
       [=](Trial& trial) {
         for (const std::size_t count : {std::size_t{997}, trial.n() - 1, std::size_t{1}}) {
           std::vector<float> data = inexact_numbers(trial.rank(), count), expected = data;
           solution(trial.comm(), data);
           all_reduce_ring<float>(trial.comm(), expected, ReduceOp::avg);
           const bool was_right = trial.mistake().empty();
           expect_values(trial, data, "", [&](std::size_t i) { return expected[i]; });
           if (count < trial.n()) trial.wrong_in(was_right, Seen::fewer);
         }
       },
       {{Seen::fewer,
         "with fewer elements than ranks, too, the numbers must be added in the ring's "
         "order"}}},
      large_check(solution, Part::everything, 2),
  };
  return with_hints(checks, kRingHints);
}

}  // namespace dist::exercise
