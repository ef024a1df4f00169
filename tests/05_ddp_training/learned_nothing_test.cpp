// Whether a run has learned anything, from the losses of its steps.
#include "05_ddp_training/trainer/options.hpp"
#include "05_ddp_training/trainer/report.hpp"
#include "tests/support/mpi_test.hpp"

#include <cmath>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

constexpr double kNoLoss = std::numeric_limits<double>::quiet_NaN();  // of a step to be skipped
using Losses = std::vector<double>;

// What is said of a run of these epochs, which the run did wholly, and of its last steps, which
// were no whole epoch.
std::string said_of(const std::vector<Losses>& epochs, const Losses& last_steps = {}) {
  const Console console(/*json=*/false, /*speaks=*/false);
  const Options options;
  Report report(console, options, 0, 100);
  const auto steps = [&](const Losses& losses) {
    for (const double loss : losses) {
      report.step(0, 0.1, loss, UpdateState(), std::isnan(loss) ? "0.weight" : "", StepTimes());
    }
  };
  for (const Losses& losses : epochs) {
    steps(losses);
    report.epoch(0, Report::Epoch::whole);
  }
  steps(last_steps);
  report.epoch(0, Report::Epoch::unfinished);
  return report.learned_nothing(/*classes=*/10);
}

}  // namespace

TEST_CASE("a run whose steps were skipped, or whose loss is not finite, has learned nothing",
          "[one process]") {
  CHECK(said_of({{2.3, 1, 0.5}}).empty());
  CHECK(said_of({{2.3, kNoLoss, 0.5}}).empty());  // one bad batch
  CHECK(said_of({{2.3, 1e9}, {1, 0.5}}).empty());
  CHECK(said_of({}).empty());
  // A skipped step hides nothing of the others: their mean is above 2 ln(10) and the first's.
  CHECK(
      said_of({{2.3, kNoLoss, 1e9}}).starts_with("the mean loss of the last whole epoch, 5e+"));
  CHECK(said_of({{kNoLoss, 2.3, 1e9}}).find("the first step's, 2.3, ") != std::string::npos);
  // The loss of a step that was taken is infinite if a label's probability is 0.
  CHECK(said_of({{2.3, HUGE_VAL}}) ==
        "the mean loss of the last whole epoch is inf: training diverged");
  CHECK(said_of({{HUGE_VAL, 2.3}, {1e9}})
            .starts_with("the mean loss of the last whole epoch, 1e+"));
  CHECK(said_of({{2.3, 1, 0.5}, {kNoLoss, kNoLoss, 2}}) ==
        "only 1 of the 3 steps of the last whole epoch were taken: training diverged");
  CHECK(said_of({{kNoLoss, kNoLoss}}) ==
        "only 0 of the 2 steps of the run were taken: training diverged");
  CHECK(said_of({}, {2.3, kNoLoss, kNoLoss}) ==
        "only 1 of the 3 steps of the run were taken: training diverged");
}
