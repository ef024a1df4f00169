// Checks of buckets: when each one starts, whether it is waited for, and the state left for the
// next step.
#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/exercise/gradient_sync.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "common/join.hpp"
#include "common/stream.hpp"
#include "tools/exercises/05_ddp_training/overlap_bench.hpp"
#include "tools/exercises/message_checks.hpp"

namespace dist::exercise {
namespace {

// Uses the lesson's own process group, whose thread works while the calling thread continues.
void expect_real(Trial& trial, const Overlaps& solution) {
  const Stream stream(Device{});
  const auto group =
      make_process_group(Backend::ours, trial.comm(), Device{}, AllReduceAlgorithm::ring, true);
  const std::vector<BucketPlan> plans{
      {{4, 3, 2}, {1, 0}}, {{4, 3, 2, 1, 0}}, {{4}, {3}, {2}, {1}, {0}}};
  for (const BucketPlan& plan : plans) {
    GradientSet gradients({1000, 0, 70000, 1, 333});
    const auto sync = solution(*group, named(gradients), plan, stream);
    for (std::size_t step = 0; step < 3; ++step) {
      gradients.fill_tracers(trial, step);
      for (const std::size_t index : kBackward) sync->mark_ready(index);
      sync->finalize();
      gradients.expect_means(trial, step);
    }
  }
}

}  // namespace

const std::string kTooEarly =
    "a bucket has started too early: it needs all of its gradients, and all buckets before it";

std::vector<Check> checks_of_overlap(const Overlaps& solution) {
  const std::vector<Check> checks{
      {"one-per-bucket",
       "a step must make one all-reduce per bucket, of all its elements",
       "a bucket's gradients share one message, as long as these gradients together: allocate "
       "it in the constructor",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         bench.mark_ready(kBackward);
         bench.sync->finalize();
         Order sizes = bench.group.sizes;
         std::ranges::sort(sizes);
         const Seen otherwise = sizes.size() > 3   ? Seen::too_many
                                : sizes.size() < 3 ? Seen::too_few
                                                   : Seen::something_else;
         trial.expect(otherwise, sizes == kSizes,
                      "{} all-reduces, of {} elements; expected 3, of 4, 6 and 7", sizes.size(),
                      join(sizes, ", "));
       },
       {{Seen::too_few,
         "a bucket was never started. The last one is full when the last gradient is ready, so "
         "look at it after that gradient, too"},
        {Seen::too_many,
         "start each bucket once, when all of its gradients are ready: one message for all of "
         "them, not one for each"}}},
      {"allocated-once", "the messages must be allocated in the constructor, and not in a step",
       "call group.allocate in the constructor, once per bucket, and keep the tensors: on a "
       "GPU, allocating memory makes all streams wait",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         const int before = bench.group.allocations;
         bench.mark_ready(kBackward);
         bench.sync->finalize();
         trial.expect(bench.group.allocations == before, "{} messages were allocated in a step",
                      bench.group.allocations - before);
       }},
      {"complete", "no bucket may start before its last gradient is ready",
       "count for each bucket how many gradients are missing, and start the bucket when that "
       "number is 0. Anything written into its message later is not sent",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         bench.sync->mark_ready(4);
         trial.expect(bench.group.sizes.empty(),
                      "only 4.weight is ready, but its bucket, which also contains 2.bias, has "
                      "started");
       }},
      {"in-backward",
       "a bucket must start in the call that completes it",
       "start the all-reduce in mark_ready. When finalize runs, backward is over and can no "
       "longer hide the all-reduce: the result is right, but the overlap is lost",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         bench.expect_started(kBackward, {0, 1, 1, 2, 3});
       },
       {{Seen::too_many, kTooEarly},
        {Seen::elsewhere,
         "it starts in mark_ready, but in a later call. A bucket is full when the last of the "
         "gradients that the plan gives it is ready: look up each gradient's bucket in the "
         "plan, because neither its index nor its length says it"}}},
      {"goes-on", "mark_ready must not wait for the all-reduces that it starts",
       "all_reduce returns a Work at once: keep it, and return to backward. If you wait here, "
       "there is no overlap, only smaller messages",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         bench.mark_ready(kBackward);
         trial.expect(bench.group.not_waited_for == 3,
                      "{} of 3 buckets were waited for before finalize",
                      3 - bench.group.not_waited_for);
         bench.sync->finalize();
       }},
      {"in-order", "buckets must start strictly in order, whichever is full first",
       "a full bucket waits for the buckets before it: keep the index of the next bucket to "
       "start, and start no other. Gradients may become ready in a different order on another "
       "rank, and then gradients of different layers would be added together",
       [=](Trial& trial) {
         for (const Order& order :
              {Order{0, 1, 2, 3, 4}, Order{2, 1, 4, 3, 0}, Order{4, 0, 3, 2, 1}}) {
           Bench bench(trial, solution);
           for (const std::size_t index : order) {
             bench.sync->mark_ready(index);
             const Order sizes = bench.group.sizes;
             trial.expect(std::ranges::equal(sizes, std::span(kSizes).first(
                                                        std::min(sizes.size(), kSizes.size()))),
                          "when {} became ready, buckets of {} elements had started, in this "
                          "order; the buckets have 4, 6 and 7 elements",
                          kNames[index], join(sizes, ", "));
           }
         }
       }},
      {"catches-up",
       "a bucket must start as soon as it and all buckets before it are full, and not earlier",
       "one call may allow several buckets to start, so use a loop: as long as the next bucket "
       "is full, start it. With `if` instead of `while`, the later buckets wait for a call "
       "that may never come",
       [=](Trial& trial) {
         {
           Bench bench(trial, solution);
           bench.expect_started({0, 1, 2, 3, 4}, {0, 0, 0, 0, 3});
         }
         Bench bench(trial, solution);
         bench.expect_started({2, 1, 4, 3, 0}, {0, 0, 0, 2, 3});
       },
       {{Seen::too_many, kTooEarly}}},
      {"waited-for", "finalize must wait for every bucket",
       "keep the Work of every bucket, not only the last one, and in finalize call "
       "wait(compute) for each before you read its message",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         bench.mark_ready(kBackward);
         bench.sync->finalize();
         trial.expect(bench.group.not_waited_for == 0, "{} of 3 buckets were not waited for",
                      bench.group.not_waited_for);
       }},
      {"values",
       "every gradient must become the average over the ranks",
       "copy the gradients into the bucket's message before its all-reduce starts, and back "
       "into the gradients after the wait, each at its own offset in the plan's order. The "
       "order "
       "in which they become ready differs between ranks, so it must not decide where they "
       "stand. ReduceOp::avg divides",
       [=](Trial& trial) {
         for (std::size_t turn = 0; turn < kBackward.size(); ++turn) {
           Bench bench(trial, solution);
           Order order = kBackward;  // each rank has a different order
           std::ranges::rotate(
               order, order.begin() +
                          static_cast<std::ptrdiff_t>(
                              (turn + static_cast<std::size_t>(trial.rank())) % order.size()));
           bench.mark_ready(order);
           bench.sync->finalize();
           bench.gradients.expect_means(trial);
         }
       },
       {{Seen::stale,
         "that is what the gradients held when the object was made: copy them into the message "
         "in each step, when they are ready"},
        {Seen::nan,
         "NaN stands in a message while it belongs to the group: wait for the Work of its "
         "all-reduce before you read it, and do not write to it in between"}}},
      {"next-step",
       "the next step must start like the first",
       "finalize must reset everything: which gradients are ready, how many each bucket is "
       "missing, the Work of each bucket, and that bucket 0 is the next to start",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         for (std::size_t step = 0; step < 3; ++step) {
           bench.gradients.fill_tracers(trial, 31 * step);
           bench.expect_started(kBackward, {0, 1, 1, 2, 3},
                                fmt::format("in step {}, ", step + 1));
           bench.sync->finalize();
           const auto mean_of = [&](std::size_t at, std::size_t g, std::size_t i) {
             return trial.mean(31 * at + 100 * g + i);
           };
           bench.gradients.expect(
               trial, [&](std::size_t g, std::size_t i) { return mean_of(step, g, i); },
               [&](double value, double want, std::size_t g, std::size_t i) {
                 const double before = step == 0 ? 0 : mean_of(step - 1, g, i);
                 return step == 0                       ? Seen::something_else
                        : is_near(value, before)        ? Seen::stale
                        : is_near(value, before + want) ? Seen::added
                                                        : Seen::something_else;
               });
         }
       },
       {{Seen::stale,
         "that is the average of the step before: copy the gradients into the message in each "
         "step, when they are ready, and their averages back in each finalize"},
        {Seen::added,
         "that is the average of this step and of the one before, in sum: write into the "
         "message (=), and do not add to what it still holds (+=)"},
        {Seen::crash,
         "the first step works, so something of it is left, for example a counter or a list of "
         "Works that goes on where it ended: finalize must reset everything"}}},
      {"two-objects", "two objects must not share anything",
       "keep everything in the object: a static or global variable belongs to all objects",
       [=](Trial& trial) {
         Bench one(trial, solution);
         Bench two(trial, solution);
         two.gradients.fill_tracers(trial, 77);
         for (const std::size_t index : kBackward) {
           one.sync->mark_ready(index);
           two.sync->mark_ready(kBackward.front() - index);
         }
         one.sync->finalize();
         two.sync->finalize();
         one.gradients.expect_means(trial);
         two.gradients.expect_means(trial, 77);
       }},
      {"missing",
       "an Error must name the gradient that never became ready",
       "remember for each gradient whether it was marked in this step. If one was not, its "
       "bucket and all later buckets were never sent, and the model would train without them: "
       "throw an Error that names this gradient, and no other gradient, before you wait",
       [=](Trial& trial) {
         for (const bool is_empty : {false, true}) {  // an empty one belongs to the model, too
           for (const int step : {1, 3}) {
             for (std::size_t missing = 0; missing < kNames.size(); ++missing) {
               Lengths lengths = kLengths;
               if (is_empty) lengths[missing] = 0;
               Bench bench(trial, solution, lengths);
               for (int whole = 1; whole < step; ++whole) {
                 bench.mark_ready(kBackward);
                 bench.sync->finalize();
               }
               trial.call(fmt::format("a step without {}, after {} whole steps",
                                      kNames[missing], step - 1));
               const std::string text = complaint(bench, missing);
               const CallScope over(kOver);  // the ranks that throw wait for those that do not
               trial.comm().barrier();
               trial.expect(is_empty   ? Seen::empty
                            : step > 1 ? Seen::stale
                                       : Seen::something_else,
                            text.empty(), "in step {}, only {}{} is missing, but {}", step,
                            kNames[missing], is_empty ? ", which has no elements," : "", text);
             }
           }
         }
       },
       {{Seen::empty,
         "a gradient may have no elements, and must be ready like any other: count gradients, "
         "not their elements"},
        {Seen::stale,
         "in a first step it is noticed, and after whole steps it is not: finalize must also "
         "reset what remembers which gradients are ready"},
        {Seen::hang,
         "it is missing on all ranks, so all must throw, and before any of them waits for a "
         "bucket: those that wait need the messages of all others"},
        {Seen::crash,
         "the Work of a bucket that was never sent is null, or not there. Look for a gradient "
         "that is missing before you wait for any of them; and after whole steps, "
         "what says which gradients are ready must be reset, too"}}},
      {"order",
       "the averages must have the bits of one all-reduce per bucket, with ReduceOp::avg",
       "put a bucket's gradients into its message in the plan's order, and let ReduceOp::avg "
       "divide. The place of an element in the message, and the point at which the sum is "
       "divided, affect the last bits of the result",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         bench.gradients.fill_inexact(trial);
         std::vector<std::vector<float>> averages(kNames.size());
         for (const auto& bucket : kPlan) {
           std::vector<float> message;
           for (const std::size_t g : bucket) {
             message.insert(message.end(), bench.gradients.at(g).begin(),
                            bench.gradients.at(g).end());
           }
           all_reduce<float>(trial.comm(), message, ReduceOp::avg, AllReduceAlgorithm::ring);
           std::span<const float> rest(message);
           for (const std::size_t g : bucket) {
             const std::size_t count = bench.gradients.at(g).size();
             averages[g].assign(rest.begin(),
                                rest.begin() + static_cast<std::ptrdiff_t>(count));
             rest = rest.subspan(count);
           }
         }
         std::vector<float> all;
         for (const auto& each : averages) all.insert(all.end(), each.begin(), each.end());
         bench.mark_ready(kBackward);
         bench.sync->finalize();
         bench.gradients.expect_bits(trial, all);
       }},
      {"not-finite", kNotFiniteMust, kNotFiniteHint,
       [=](Trial& trial) {
         Bench bench(trial, solution);
         bench.gradients.fill_not_finite(trial);
         bench.mark_ready(kBackward);
         bench.sync->finalize();
         bench.gradients.expect_not_finite(trial);
       }},
      {"real-group", "it must work with a process group that runs in its own thread",
       "from the start of an all-reduce to the end of its wait, the message belongs to the "
       "group: do not touch it. Gradients may be empty, and buckets may have any length",
       [=](Trial& trial) { expect_real(trial, solution); }},
  };
  return with_hang_hint(checks,
                        "collectives are matched by the order of the calls, not by name: all "
                        "ranks must start the same buckets in the same order, and wait for "
                        "them");
}

}  // namespace dist::exercise
