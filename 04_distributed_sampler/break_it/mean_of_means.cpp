// Belief:  averaging over ranks is always exact: the mean of the ranks' means is the overall
//          mean.
// Predict: the model misclassifies one sample, on the rank whose sample count differs. How far
//          is the mean of the ranks' accuracies from the true accuracy if all shards are equal
//          in size, if rank 0 has one extra sample, and if the last rank has one sample and the
//          others have 100 each?
// You see: on 4 ranks, an error of 0 for equal shards, of 1.4 points for one extra sample, and
//          of 24.7 points for one sample against 100. The weighted mean is exact in all three
//          cases.
// Why:     a mean of means gives every rank the same weight, so a sample on a rank with few
//          samples counts for more. The same is true of gradients: their average equals the
//          gradient of one large batch only if the local batches are equal in size and the
//          loss is a mean.
// In the wild: langfengQ/verl-agent#267 reported (35/124 + 1/1) / 2 = 64.1 %, although only
//          36 of 125 = 28.8 % were right.
#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/break_it/experiments.hpp"
#include "04_distributed_sampler/weighted_mean.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <string>

namespace dist {
namespace {

struct Means {
  double of_means = 0;
  double weighted = 0;
};

Means accuracy(const Communicator& comm, std::uint64_t right, std::uint64_t count) {
  std::array own{static_cast<double>(right) / static_cast<double>(count)};
  all_reduce<double>(comm, own, ReduceOp::avg, AllReduceAlgorithm::recursive_doubling);
  return {own[0], mean_over_samples(comm, static_cast<double>(right), count)};
}

}  // namespace

bool break_mean_of_means(const Program& program) {
  struct Case {
    const char* name;
    std::uint64_t usual;
    std::uint64_t odd;
    int odd_rank;  // has `odd` samples and the only mistake; the others have `usual` samples
  };
  const Communicator& comm = program.comm;
  const std::array cases{Case{"3 on every rank", 3, 3, 0},
                         Case{"one rank has 4, the others 3", 3, 4, 0},
                         Case{"one rank has 1, the others 100", 100, 1, comm.size() - 1}};
  Table table({"samples", "weighted", "mean of means", "error, points"});
  std::array<double, cases.size()> errors{};
  bool weighted_is_exact = true;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [name, usual, odd, odd_rank] = cases[i];
    const bool is_odd = comm.rank() == odd_rank;
    const std::uint64_t count = is_odd ? odd : usual;
    const auto [of_means, weighted] = accuracy(comm, count - (is_odd ? 1 : 0), count);
    const double all =
        static_cast<double>(usual) * (comm.size() - 1) + static_cast<double>(odd);
    weighted_is_exact = weighted_is_exact && weighted == (all - 1) / all;
    errors[i] = of_means - weighted;
    table.add({name, fmt::format("{:.2f} %", 100 * weighted),
               fmt::format("{:.2f} %", 100 * of_means),
               fmt::format("{:+.2f}", 100 * errors[i])});
    program.console.row({{"break", "mean-of-means"},
                         {"ranks", comm.size()},
                         {"case", name},
                         {"weighted", significant(weighted)},
                         {"mean_of_means", significant(of_means)},
                         {"error", significant(errors[i])}});
  }
  table.print(program.console);
  constexpr double kRounding = 1e-12;
  return weighted_is_exact && std::abs(errors[0]) < kRounding && errors[1] > kRounding &&
         errors[2] < -kRounding;
}

}  // namespace dist
