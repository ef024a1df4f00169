// Checks of buckets: when each one starts, whether it is waited for, and the state left for the
// next step.
#include "common/stream.hpp"
#include "tests/exercises/05_ddp_training/checks.hpp"
#include "tests/exercises/05_ddp_training/deferred_process_group.hpp"
#include "tests/exercises/05_ddp_training/gradient_set.hpp"

#include <fmt/ranges.h>

#include <optional>

namespace dist::exercise {
namespace {

using Order = std::vector<std::size_t>;

// Five gradients in three buckets of 4, 6 and 7 elements.
const std::vector<std::string> kNames{"0.weight", "0.bias", "2.weight", "2.bias", "4.weight"};
const std::vector<std::size_t> kLengths{7, 2, 4, 1, 3};
const BucketPlan kPlan{{4, 3}, {2, 1}, {0}};
const Order kSizes{4, 6, 7};
const Order kBackward{4, 3, 2, 1, 0};

// A model and a solution that averages its gradients.
class Bench {
 public:
  Bench(Trial& trial, const Overlaps& solution)
      : trial_(trial), gradients_(kLengths), group_(trial.comm()), stream_(Device{}) {
    fill(0);
    sync_ = solution(group_, named(gradients_), kPlan, stream_);
  }

  static std::vector<Gradient> named(GradientSet& gradients) {
    std::vector<Gradient> all;
    for (std::size_t g = 0; g < gradients.count(); ++g) {
      all.push_back({kNames[g % kNames.size()], gradients.at(g)});
    }
    return all;
  }

  DeferredProcessGroup& group() { return group_; }
  GradientSet& gradients() { return gradients_; }
  GradientSync& sync() { return *sync_; }

  void fill(std::size_t step) {
    gradients_.fill([&](std::size_t g, std::size_t i) {
      return trial_.value(trial_.rank(), 31 * step + 10 * g + i);
    });
  }
  void expect_averages(std::size_t step) {
    gradients_.expect(trial_, [&](std::size_t g, std::size_t i) {
      double sum = 0;
      for (int rank = 0; rank < trial_.size(); ++rank) {
        sum += trial_.value(rank, 31 * step + 10 * g + i);
      }
      return sum / trial_.size();
    });
    gradients_.expect_guards(trial_);
  }

  // Marks gradients as ready in this order, and expects started[i] all-reduces after call i.
  void expect_started(const Order& order, const Order& started) {
    for (std::size_t call = 0; call < order.size(); ++call) {
      sync_->mark_ready(order[call]);
      trial_.expect(
          group_.sizes().size() == started[call],
          "with {} ready, {} of the buckets [4.weight 2.bias] [2.weight 0.bias] [0.weight] "
          "have started, expected {}",
          ready(order, call), group_.sizes().size(), started[call]);
    }
  }
  static std::string ready(const Order& order, std::size_t last) {
    std::vector<std::string> names;
    for (std::size_t call = 0; call <= last; ++call) names.push_back(kNames[order[call]]);
    return fmt::format("{}", fmt::join(names, ", "));
  }

 private:
  Trial& trial_;
  GradientSet gradients_;
  DeferredProcessGroup group_;
  Stream stream_;
  std::unique_ptr<GradientSync> sync_;
};

// What finalize throws if gradient `missing` was never ready; nullopt if it does not throw.
std::optional<std::string> complaint(Bench& bench, std::size_t missing) {
  for (const std::size_t index : kBackward) {
    if (index != missing) bench.sync().mark_ready(index);
  }
  try {
    bench.sync().finalize();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& other) {
    return fmt::format("the exception is not a dist::Error: {}", other.what());
  }
  return std::nullopt;
}

// Uses the lesson's own process group, whose thread works while the calling thread continues.
void expect_real(Trial& trial, const Overlaps& solution) {
  const Stream stream(Device{});
  const auto group =
      make_process_group(Backend::ours, trial.comm(), Device{}, AllReduceAlgorithm::ring, true);
  GradientSet gradients({1000, 0, 70000, 1, 333});
  const auto sync = solution(*group, Bench::named(gradients), {{4, 3, 2}, {1, 0}}, stream);
  for (std::size_t step = 0; step < 3; ++step) {
    gradients.fill([&](std::size_t g, std::size_t i) {
      return trial.value(trial.rank(), step + 10 * g + i);
    });
    for (const std::size_t index : kBackward) sync->mark_ready(index);
    sync->finalize();
    gradients.expect(trial, [&](std::size_t g, std::size_t i) {
      double sum = 0;
      for (int rank = 0; rank < trial.size(); ++rank) {
        sum += trial.value(rank, step + 10 * g + i);
      }
      return sum / trial.size();
    });
    gradients.expect_guards(trial);
  }
}

const std::string kHangHint =
    "collectives are matched by the order of the calls, not by name: all ranks must start the "
    "same buckets in the same order, and wait for them";

}  // namespace

std::vector<Check> checks_of_overlap(const Overlaps& solution) {
  const std::vector<Check> checks{
      {"one-per-bucket", "a step makes one all-reduce per bucket, of all its elements",
       "a bucket's gradients share one message: allocate it in the constructor, long enough "
       "for all of them",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         for (const std::size_t index : kBackward) bench.sync().mark_ready(index);
         bench.sync().finalize();
         Order sizes = bench.group().sizes();
         std::ranges::sort(sizes);
         trial.expect(sizes == kSizes, "all-reduces of {} elements, expected 4, 6 and 7",
                      fmt::join(sizes, ", "));
       }},
      {"complete", "no bucket starts before its last gradient is ready",
       "count for each bucket how many gradients are missing, and start the bucket when that "
       "number is 0. Anything written into its message later is not sent",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         bench.sync().mark_ready(4);
         trial.expect(bench.group().sizes().empty(),
                      "only 4.weight is ready, but its bucket, which also contains 2.bias, has "
                      "started");
       }},
      {"in-backward", "a bucket starts in the call that completes it",
       "start the all-reduce in mark_ready. When finalize runs, backward is over and can no "
       "longer hide the all-reduce: the result is right, but the overlap is lost",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         bench.expect_started(kBackward, {0, 1, 1, 2, 3});
       }},
      {"goes-on", "mark_ready does not wait for the all-reduces that it starts",
       "all_reduce returns a Work at once: keep it, and return to backward. If you wait here, "
       "there is no overlap, only smaller messages",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         for (const std::size_t index : kBackward) bench.sync().mark_ready(index);
         trial.expect(bench.group().not_waited_for() == 3,
                      "{} of 3 buckets were waited for before finalize",
                      3 - bench.group().not_waited_for());
         bench.sync().finalize();
       }},
      {"in-order", "buckets start strictly in order, whichever is full first",
       "a full bucket waits for the buckets before it: keep the index of the next bucket to "
       "start, and start no other. Gradients may become ready in a different order on another "
       "rank, and then gradients of different layers would be added together",
       [=](Trial& trial) {
         for (const Order& order :
              {Order{0, 1, 2, 3, 4}, Order{2, 1, 4, 3, 0}, Order{4, 0, 3, 2, 1}}) {
           Bench bench(trial, solution);
           for (const std::size_t index : order) {
             bench.sync().mark_ready(index);
             const Order sizes = bench.group().sizes();
             trial.expect(std::ranges::equal(sizes, std::span(kSizes).first(
                                                        std::min(sizes.size(), kSizes.size()))),
                          "when {} became ready, buckets of {} elements had started, in "
                          "this order; the buckets have 4, 6 and 7 elements",
                          kNames[index], fmt::join(sizes, ", "));
           }
         }
       }},
      {"catches-up",
       "when a bucket becomes full, the full buckets that waited for it also start",
       "one call may allow several buckets to start, so use a loop: as long as the next "
       "bucket is full, start it. With `if` instead of `while`, the later buckets wait for a "
       "call that may never come",
       [=](Trial& trial) {
         {
           Bench bench(trial, solution);
           bench.expect_started({0, 1, 2, 3, 4}, {0, 0, 0, 0, 3});
         }
         Bench bench(trial, solution);
         bench.expect_started({2, 1, 4, 3, 0}, {0, 0, 0, 2, 3});
       }},
      {"waited-for", "finalize waits for every bucket",
       "keep the Work of every bucket, and in finalize call wait(compute) for each before you "
       "read its message. Otherwise the optimizer uses buckets that have not been averaged yet",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         for (const std::size_t index : kBackward) bench.sync().mark_ready(index);
         bench.sync().finalize();
         trial.expect(bench.group().not_waited_for() == 0,
                      "{} of 3 buckets were not waited for", bench.group().not_waited_for());
       }},
      {"values", "every gradient becomes the average over the ranks",
       "copy the gradients into the bucket's message before its all-reduce starts, and back "
       "into the gradients after the wait, each at its own offset; ReduceOp::avg divides",
       [=](Trial& trial) {
         for (std::size_t turn = 0; turn < kBackward.size(); ++turn) {
           Bench bench(trial, solution);
           Order order = kBackward;  // each rank has a different order
           std::ranges::rotate(
               order, order.begin() +
                          static_cast<std::ptrdiff_t>(
                              (turn + static_cast<std::size_t>(trial.rank())) % order.size()));
           for (const std::size_t index : order) bench.sync().mark_ready(index);
           bench.sync().finalize();
           bench.expect_averages(0);
         }
       }},
      {"next-step", "the next step starts like the first",
       "finalize must reset everything: which gradients are ready, how many each bucket is "
       "missing, and that bucket 0 is the next to start",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         for (std::size_t step = 0; step < 3; ++step) {
           bench.fill(step);
           bench.expect_started(
               kBackward, {3 * step, 3 * step + 1, 3 * step + 1, 3 * step + 2, 3 * step + 3});
           bench.sync().finalize();
           bench.expect_averages(step);
         }
       }},
      {"missing", "an Error names the gradient that never became ready",
       "remember for each gradient whether it was marked. If one was not, its bucket and all "
       "later buckets were never sent, and the model would train without them: throw an Error "
       "with the gradient's name before you wait",
       [=](Trial& trial) {
         for (std::size_t missing = 0; missing < kNames.size(); ++missing) {
           Bench bench(trial, solution);
           const auto text = complaint(bench, missing);
           if (!text) trial.wrong(kNames[missing] + " is missing, but finalize did not throw");
           const bool named = !text || text->find(kNames[missing]) != std::string::npos;
           trial.expect(named, "{} is missing, but finalize threw: {}", kNames[missing],
                        text.value_or(""));
           if (text && text->find("not a dist::Error") != std::string::npos) trial.wrong(*text);
         }
       }},
      {"real-group", "it works with a process group that runs in its own thread",
       "from the start of an all-reduce to the end of its wait, the message belongs to the "
       "group: do not touch it. Gradients may be empty, and buckets may have any length",
       [=](Trial& trial) { expect_real(trial, solution); }},
  };
  return with_hang_hint(checks, kHangHint);
}

}  // namespace dist::exercise
