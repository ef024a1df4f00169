// Right and wrong means over all samples.
#include "01_send_recv/send_recv.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "tests/exercises/04_distributed_sampler/reference/weighted_mean.hpp"
#include "tests/exercises/04_distributed_sampler/solutions/solutions.hpp"

#include <array>
#include <cmath>

namespace dist::exercise {
namespace {

double mean_of_means(const Communicator& comm, double sum, std::uint64_t count) {
  std::array mean{sum / static_cast<double>(count)};
  all_reduce<double>(comm, mean, ReduceOp::avg);
  return mean[0];
}

double divides_by_ranks(const Communicator& comm, double sum, std::uint64_t) {
  std::array all{sum};
  all_reduce<double>(comm, all, ReduceOp::avg);
  return all[0];
}

double its_own(const Communicator&, double sum, std::uint64_t count) {
  return sum / static_cast<double>(count);
}

// The sum of all by the count of one: takes all shards to be as long as its own.
double own_count(const Communicator& comm, double sum, std::uint64_t count) {
  std::array all{sum};
  all_reduce<double>(comm, all, ReduceOp::sum);
  return all[0] / static_cast<double>(count * static_cast<std::uint64_t>(comm.size()));
}

double whole_numbers(const Communicator& comm, double sum, std::uint64_t count) {
  std::array both{static_cast<std::uint64_t>(sum), count};
  all_reduce<std::uint64_t>(comm, both, ReduceOp::sum);
  return both[1] == 0 ? std::nan("") : static_cast<double>(both[0] / both[1]);
}

// Weights the means by their counts: 0 / 0 * 0 is no number.
double weights_its_mean(const Communicator& comm, double sum, std::uint64_t count) {
  const auto n = static_cast<double>(count);
  std::array both{sum / n * n, n};
  all_reduce<double>(comm, both, ReduceOp::sum);
  return both[0] / both[1];
}

double leaves_early(const Communicator& comm, double sum, std::uint64_t count) {
  if (count == 0) return std::nan("");
  return mean_over_samples(comm, sum, count);
}

double zero_for_nobody(const Communicator& comm, double sum, std::uint64_t count) {
  const double mean = mean_over_samples(comm, sum, count);
  return std::isnan(mean) ? 0 : mean;
}

double in_float(const Communicator& comm, double sum, std::uint64_t count) {
  std::array both{static_cast<float>(sum), static_cast<float>(count)};
  all_reduce<float>(comm, both, ReduceOp::sum);
  return static_cast<double>(both[0]) / static_cast<double>(both[1]);
}

// Everybody collects everything, beginning with its own.
double adds_in_its_own_order(const Communicator& comm, double sum, std::uint64_t count) {
  std::array all{sum, static_cast<double>(count)};
  std::array<double, 2> passing = all;
  for (int step = 0; step < comm.size() - 1; ++step) {
    std::array<double, 2> coming{};
    send_recv<double>(comm, passing, comm.right(), coming, comm.left());
    for (std::size_t i = 0; i < 2; ++i) all[i] += coming[i];
    passing = coming;
  }
  return all[0] / all[1];
}

double two_messages(const Communicator& comm, double sum, std::uint64_t count) {
  std::array sums{sum};
  std::array counts{count};
  all_reduce<double>(comm, sums, ReduceOp::sum);
  all_reduce<std::uint64_t>(comm, counts, ReduceOp::sum);
  return sums[0] / static_cast<double>(counts[0]);
}

// Right, differently written: count first, and the algorithm by its name.
double doubles_by_name(const Communicator& comm, double sum, std::uint64_t count) {
  std::vector<double> both{static_cast<double>(count), sum};
  all_reduce_recursive_doubling<double>(comm, both, ReduceOp::sum);
  return both.back() / both.front();
}

}  // namespace

std::vector<Solution> mean_solutions() {
  const auto known = [](const char* name, const WeightedMean& solution) {
    return Solution{"weighted_mean", name, checks_of_weighted_mean(solution)};
  };
  return {
      known("reference", weighted_mean),
      known("doubling", doubles_by_name),
      known("mean-of-means", mean_of_means),
      known("by-ranks", divides_by_ranks),
      known("own-mean", its_own),
      known("own-count", own_count),
      known("whole-numbers", whole_numbers),
      known("weights-its-mean", weights_its_mean),
      known("leaves-early", leaves_early),
      known("zero", zero_for_nobody),
      known("float", in_float),
      known("own-order", adds_in_its_own_order),
      known("two-messages", two_messages),
  };
}

}  // namespace dist::exercise
