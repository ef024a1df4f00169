// Checks of the mean over all samples: even, uneven and empty shards, and the number of
// messages.
#include "03_all_reduce/all_reduce.hpp"
#include "tools/exercises/message_checks.hpp"

#include <array>

namespace dist::exercise {
namespace {

using WeightedMean = std::function<double(const Communicator&, double, std::uint64_t)>;

using CountOf = std::function<int(int rank)>;

Seen how_far(double got, double must) {
  const double error = std::abs(got / must - 1);
  return error < 1e-14 ? Seen::last_bit : error < 1e-6 ? Seen::single : Seen::something_else;
}

// Rank r holds count_of(r) samples, which are tracer numbers. Their sums are exact, so the mean
// is rounded only once.
void expect_mean(Trial& trial, const WeightedMean& solution, const CountOf& count_of) {
  double mine = 0;
  double sum = 0;
  int all = 0;
  for (int rank = 0; rank < trial.size(); ++rank) {
    for (int i = 0; i < count_of(rank); ++i) {
      const double value = trial.value(rank, static_cast<std::size_t>(i)) + 0.5;
      sum += value;
      if (rank == trial.rank()) mine += value;
    }
    all += count_of(rank);
  }
  const auto count = static_cast<std::uint64_t>(count_of(trial.rank()));
  const double got = solution(trial.comm(), mine, count);
  const double must = sum / all;
  trial.expect(
      count > 0 && got == mine / static_cast<double>(count) ? Seen::own : how_far(got, must),
      got == must, "{} of {} samples are on this rank: the mean is {:.17g}, expected {:.17g}",
      count, all, got, must);
}

// Rank 0 has `sum` right answers among `count`, every other rank none of one.
void expect_share(Trial& trial, const WeightedMean& solution, int sum, int count) {
  const bool has = trial.rank() == 0;
  const double got =
      solution(trial.comm(), has ? sum : 0, static_cast<std::uint64_t>(has ? count : 1));
  const double must = static_cast<double>(sum) / (count + trial.size() - 1);
  trial.expect(how_far(got, must), got == must,
               "{} of {} answers on rank 0 are right, 0 of 1 on every other rank: the mean is "
               "{:.17g}, expected {:.17g}",
               sum, count, got, must);
}

}  // namespace

const std::map<Seen, std::string> kRounded{
    {Seen::own,
     "that is the mean of this rank's own samples. Each rank needs the sums of all: a reduce "
     "leaves them on one rank, and an all-reduce gives them to all"},
    {Seen::single,
     "the mean has only the digits of a float: exchange the sum and the count as doubles, and "
     "divide as double"},
    {Seen::last_bit,
     "only the last digit differs. Exchange the sum and the count as they are, with "
     "ReduceOp::sum (avg rounds both), and divide afterwards, once: a mean times its count is "
     "not always the sum again"}};

std::vector<Check> checks_of_weighted_mean(const WeightedMean& solution) {
  const std::vector<Check> checks{
      {"even", "the result must be the sum of all samples divided by their number",
       "add up the sums of all ranks, add up their counts, and divide the total sum by the "
       "total count, as doubles. Divide by the number of samples, not by the number of ranks",
       [=](Trial& trial) {
         expect_mean(trial, solution, [](int) { return 4; });
         expect_mean(trial, solution, [](int) { return 1; });
       },
       kRounded},
      {"uneven", "every sample must have the same weight, however many samples its rank has",
       "the mean of the ranks' means gives samples on small shards more weight. If 3 of 4 and "
       "3 of 3 are right, the mean is 6 / 7 = 0.857, not (0.75 + 1) / 2. Exchange the sum and "
       "the count, and divide afterwards",
       [=](Trial& trial) {
         expect_mean(trial, solution, [](int rank) { return 3 * rank + 1; });
         expect_mean(trial, solution, [](int rank) { return rank == 0 ? 30 : 2; });
         expect_mean(trial, solution, [](int rank) { return 7 + 5 * rank; });
         for (const int count : {22, 49}) {  // sum / count * count is not always the sum again
           for (int sum = 0; sum <= count; ++sum) expect_share(trial, solution, sum, count);
         }
       },
       kRounded},
      {"empty-rank", "a rank without samples must get the mean and not affect it",
       "a rank without samples adds 0 to the sum and 0 to the count, as they are. Divide only "
       "once, after the exchange: on that rank, sum / count is 0 / 0 = NaN, and a sum that "
       "includes NaN is NaN",
       [=](Trial& trial) {
         const int size = trial.size();
         if (size == 1) return;
         expect_mean(trial, solution, [](int rank) { return rank == 0 ? 0 : 3; });
         expect_mean(trial, solution, [=](int rank) { return rank == size - 1 ? 5 : 0; });
       }},
      {"no-samples", "without any samples, the result must be NaN on all ranks",
       "0 / 0 in double already gives NaN, which is the right answer: 0 would look like a "
       "result",
       [=](Trial& trial) {
         const double got = solution(trial.comm(), 0, 0);
         trial.expect(std::isnan(got), "the result is {}", got);
       }},
      {"large-counts", "counts and sums of whole numbers must be exact up to 2^53",
       "exchange the sum and the count as doubles, with ReduceOp::sum: float is exact only up "
       "to 2^24 = 16,777,216, an int ends at 2^31 - 1, and avg rounds",
       [=](Trial& trial) {
         // On rank 0, all of so many answers are right; on every other rank, 1 of 3 is.
         for (const std::uint64_t many :
              {(std::uint64_t{1} << 24U) + 1, (std::uint64_t{5} << 32U) + 7}) {
           const std::uint64_t count = trial.rank() == 0 ? many : 3;
           const double sum = trial.rank() == 0 ? static_cast<double>(many) : 1;
           const double others = trial.size() - 1;
           const double all = static_cast<double>(many) + 3 * others;
           const double must = (static_cast<double>(many) + others) / all;
           const double got = solution(trial.comm(), sum, count);
           const double small = solution(trial.comm(), trial.rank() == 0 ? 1 : 0, count);
           const std::string on = fmt::format("{} samples are on rank 0: ", many);
           trial.expect(got == must, "{}the mean is {:.17g}, expected {:.17g}", on, got, must);
           trial.expect(small == 1 / all, "{}1 / (all samples) is {:.17g}, expected {:.17g}",
                        on, small, 1 / all);
         }
       }},
      {"same-bits", kSameBitsMust,
       "all_reduce gives all ranks the same bits. If each rank adds up the numbers in its own "
       "order, the sums are rounded differently, and the ranks may disagree about which epoch "
       "is best",
       [=](Trial& trial) {
         for (int salt = 0; salt < 20; ++salt) {  // no sum of these numbers is exact
           const double sum = 1.0 / (3 * trial.rank() + 7 + salt) + 0.1 * salt;
           const double got = solution(trial.comm(), sum, 3);
           const CallScope over(kOver);
           const double of_rank_0 = trial.comm().all_gather(got)[0];
           trial.expect(got == of_rank_0, "{:.17g} here, but {:.17g} on rank 0", got,
                        of_rank_0);
         }
       }},
      {"messages",
       "the exchange must be one all_reduce of two numbers",
       "the sum and the count fit into one message: call all_reduce once, with an array of two "
       "doubles. A second call would cost one more alpha per round (lesson 1) for eight bytes",
       [=](Trial& trial) {
         const Traffic one = traffic_in(trial, [&] {
           std::array both{1.0, 2.0};
           all_reduce<double>(trial.comm(), both, ReduceOp::sum);
         });
         const Traffic yours = traffic_in(trial, [&] { solution(trial.comm(), 1.0, 2); });
         trial.counts()["most messages sent by a rank"] =
             fmt::format("{} / {}", yours.messages_per_rank, one.messages_per_rank);
         const bool is_ring = yours.messages_per_rank == 2 * (trial.n() - 1);
         trial.expect(is_ring ? Seen::elsewhere : Seen::something_else,
                      yours.messages_per_rank <= one.messages_per_rank,
                      "{} messages per rank, expected {}", yours.messages_per_rank,
                      one.messages_per_rank);
         trial.expect(yours.collectives == 0, "an MPI collective was called");
       },
       {{Seen::elsewhere,
         "2 (N - 1) messages are those of the ring, or of N - 1 calls: call all_reduce once, "
         "without naming an algorithm, with an array of two doubles"}}},
  };
  return with_hang_hint(
      checks,
      "a rank that returns before the all-reduce leaves the others waiting in it. A rank "
      "without samples must also take part, with a sum and a count of 0");
}

}  // namespace dist::exercise
