// Belief:  the mean of the ranks' means is the overall mean.
// Predict: the model misclassifies one sample, on the rank whose sample count differs. How far
//          is the mean of the ranks' accuracies from the true accuracy if all shards are equal
//          in size, if rank 0 has one extra sample, and if the last rank has one sample and the
//          others have 100 each?
// You see: on 4 ranks, errors of 0, 1.4 and 24.7 points. The weighted mean is always exact.
// Why:     a mean of means gives every rank the same weight, so a sample on a rank with few
//          samples counts for more. The same is true of gradients: their average equals the
//          gradient of one large batch only if the local batches are equal in size.
#include "04_distributed_sampler/weighted_mean.hpp"
#include "common/program.hpp"

#include <fmt/core.h>

#include <cmath>
#include <string>

namespace dist {

bool break_mean_of_means(const Program& program) {
  const Communicator& comm = program.comm;
  Table table({"samples", "weighted", "mean of means", "error, points"});
  bool weighted_is_exact = true;
  // Rank `odd_rank` has `odd` samples and the only mistake; the others have `usual` samples.
  // Returns the error of the mean of means.
  const auto error_if = [&](const char* name, int usual, int odd_rank, int odd) {
    const bool is_odd = comm.rank() == odd_rank;
    const int count = is_odd ? odd : usual;
    const double right = is_odd ? odd - 1 : usual;
    const double weighted = mean_over_samples(comm, right, static_cast<std::uint64_t>(count));
    const double mean_of_means = mean_over_samples(comm, right / count, 1);
    const double all = usual * (comm.size() - 1) + odd;
    weighted_is_exact = weighted_is_exact && weighted == (all - 1) / all;
    const double error = mean_of_means - weighted;
    table.add({name, fmt::format("{:.2f} %", 100 * weighted),
               fmt::format("{:.2f} %", 100 * mean_of_means),
               fmt::format("{:+.2f}", 100 * error)});
    return error;
  };
  const double equal = error_if("3 on every rank", 3, 0, 3);
  const double one_more = error_if("one rank has 4, the others 3", 3, 0, 4);
  const double one = error_if("one rank has 1, the others 100", 100, comm.size() - 1, 1);
  table.print(program.console);
  constexpr double kRounding = 1e-12;
  return weighted_is_exact && std::abs(equal) < kRounding && one_more > kRounding &&
         one < -kRounding;
}

}  // namespace dist
