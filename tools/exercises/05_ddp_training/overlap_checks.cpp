// Checks of buckets: when each one starts, whether it is waited for, and the state left for the
// next step.
#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/exercise/gradient_sync.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "common/join.hpp"
#include "common/stream.hpp"
#include "tools/exercises/05_ddp_training/gradient_set.hpp"
#include "tools/exercises/message_checks.hpp"

#include <future>
#include <limits>

namespace dist::exercise {
namespace {

using Gradients = std::vector<std::span<float>>;
using Overlaps = std::function<std::unique_ptr<GradientSync>(
    ProcessGroup&, std::vector<Gradient>, BucketPlan, const Stream&)>;

// A process group that records each call and does the work as late as allowed: waiting for an
// all-reduce runs it and those started before it, in order. Until then its tensor holds NaN, so
// that using the tensor too early is noticed.
class DeferredProcessGroup : public ProcessGroup {
 public:
  explicit DeferredProcessGroup(const Communicator& comm)
      : ProcessGroup(comm, /*overlaps=*/true, "deferred") {}

  Tensor allocate(Shape shape) override { return {std::move(shape), Device{}}; }
  std::unique_ptr<Work> start(const Collective& collective, const Stream&) override {
    if (collective.kind != Collective::Kind::all_reduce) {
      throw Error("this exercise needs an all-reduce");
    }
    const std::span<float> span = collective.tensor.span();
    started_.push_back({collective.tensor, {span.begin(), span.end()}, collective.op});
    sizes.push_back(span.size());
    std::ranges::fill(span, std::numeric_limits<float>::quiet_NaN());
    ++not_waited_for;
    // A deferred call runs when the Work is waited for.
    const auto wait = [this, end = started_.size()] {
      finish(end);
      --not_waited_for;
      return 0.0;
    };
    return std::make_unique<Work>(Event(), std::async(std::launch::deferred, wait).share());
  }
  void synchronize(const Event&) override { finish(started_.size()); }

  std::vector<std::size_t> sizes;  // of the all-reduces, in the order in which they started
  int not_waited_for = 0;

 private:
  struct Started {
    Tensor tensor;
    std::vector<float> numbers;
    ReduceOp op;
  };

  void finish(std::size_t end) {
    for (; done_ < end; ++done_) {
      Started& next = started_[done_];
      dist::all_reduce<float>(comm(), next.numbers, next.op);
      std::ranges::copy(next.numbers, next.tensor.data());
    }
  }

  std::vector<Started> started_;
  std::size_t done_ = 0;
};

using Order = std::vector<std::size_t>;

// Five gradients in three buckets of 4, 6 and 7 elements.
const std::vector<std::string> kNames{"0.weight", "0.bias", "2.weight", "2.bias", "4.weight"};
const Lengths kLengths{7, 2, 4, 1, 3};
const BucketPlan kPlan{{4, 3}, {2, 1}, {0}};
const Order kSizes{4, 6, 7};
const Order kBackward{4, 3, 2, 1, 0};

std::vector<Gradient> named(GradientSet& gradients) {
  std::vector<Gradient> all;
  for (std::size_t g = 0; g < gradients.count(); ++g) {
    all.push_back({kNames[g], gradients.at(g)});
  }
  return all;
}

// A model and a solution that averages its gradients.
struct Bench {
  Bench(Trial& of, const Overlaps& solution) : trial(of), group(of.comm()), stream(Device{}) {
    gradients.fill_tracers(trial);
    sync = solution(group, named(gradients), kPlan, stream);
  }

  void mark_ready(const Order& order) {
    for (const std::size_t index : order) sync->mark_ready(index);
  }
  // Marks gradients as ready in this order, and expects started[i] all-reduces after call i.
  void expect_started(const Order& order, const Order& started) {
    std::string ready;
    for (std::size_t call = 0; call < order.size(); ++call) {
      sync->mark_ready(order[call]);
      ready += (call > 0 ? ", " : "") + kNames[order[call]];
      trial.expect(group.sizes.size() == started[call],
                   "with {} ready, {} of the buckets [4.weight 2.bias] [2.weight 0.bias] "
                   "[0.weight] have started, expected {}",
                   ready, group.sizes.size(), started[call]);
    }
  }

  Trial& trial;
  GradientSet gradients{kLengths};
  DeferredProcessGroup group;
  Stream stream;
  std::unique_ptr<GradientSync> sync;
};

// What is wrong with what finalize throws if gradient `missing` was never ready.
std::string complaint(Bench& bench, std::size_t missing) {
  Order order = kBackward;
  std::erase(order, missing);
  bench.mark_ready(order);
  try {
    bench.sync->finalize();
  } catch (const Error& error) {
    const std::string what = error.what();
    return what.find(kNames[missing]) == std::string::npos ? "finalize threw: " + what : "";
  } catch (const std::exception& other) {
    return fmt::format("the exception is not a dist::Error: {}", other.what());
  }
  return "finalize did not throw";
}

// Uses the lesson's own process group, whose thread works while the calling thread continues.
void expect_real(Trial& trial, const Overlaps& solution) {
  const Stream stream(Device{});
  const auto group =
      make_process_group(Backend::ours, trial.comm(), Device{}, AllReduceAlgorithm::ring, true);
  GradientSet gradients({1000, 0, 70000, 1, 333});
  const auto sync = solution(*group, named(gradients), {{4, 3, 2}, {1, 0}}, stream);
  for (std::size_t step = 0; step < 3; ++step) {
    gradients.fill_tracers(trial, step);
    for (const std::size_t index : kBackward) sync->mark_ready(index);
    sync->finalize();
    gradients.expect_means(trial, step);
  }
}

}  // namespace

std::vector<Check> checks_of_overlap(const Overlaps& solution) {
  const std::vector<Check> checks{
      {"one-per-bucket", "a step makes one all-reduce per bucket, of all its elements",
       "a bucket's gradients share one message: allocate it in the constructor, long enough "
       "for all of them",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         bench.mark_ready(kBackward);
         bench.sync->finalize();
         Order sizes = bench.group.sizes;
         std::ranges::sort(sizes);
         trial.expect(sizes == kSizes, "all-reduces of {} elements, expected 4, 6 and 7",
                      join(sizes, ", "));
       }},
      {"complete", "no bucket starts before its last gradient is ready",
       "count for each bucket how many gradients are missing, and start the bucket when that "
       "number is 0. Anything written into its message later is not sent",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         bench.sync->mark_ready(4);
         trial.expect(bench.group.sizes.empty(),
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
         bench.mark_ready(kBackward);
         trial.expect(bench.group.not_waited_for == 3,
                      "{} of 3 buckets were waited for before finalize",
                      3 - bench.group.not_waited_for);
         bench.sync->finalize();
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
             bench.sync->mark_ready(index);
             const Order sizes = bench.group.sizes;
             trial.expect(std::ranges::equal(sizes, std::span(kSizes).first(
                                                        std::min(sizes.size(), kSizes.size()))),
                          "when {} became ready, buckets of {} elements had started, in "
                          "this order; the buckets have 4, 6 and 7 elements",
                          kNames[index], join(sizes, ", "));
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
         bench.mark_ready(kBackward);
         bench.sync->finalize();
         trial.expect(bench.group.not_waited_for == 0, "{} of 3 buckets were not waited for",
                      bench.group.not_waited_for);
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
           bench.mark_ready(order);
           bench.sync->finalize();
           bench.gradients.expect_means(trial);
         }
       }},
      {"next-step", "the next step starts like the first",
       "finalize must reset everything: which gradients are ready, how many each bucket is "
       "missing, and that bucket 0 is the next to start",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         for (std::size_t step = 0; step < 3; ++step) {
           bench.gradients.fill_tracers(trial, 31 * step);
           bench.expect_started(
               kBackward, {3 * step, 3 * step + 1, 3 * step + 1, 3 * step + 2, 3 * step + 3});
           bench.sync->finalize();
           bench.gradients.expect_means(trial, 31 * step);
         }
       }},
      {"missing", "an Error names the gradient that never became ready",
       "remember for each gradient whether it was marked. If one was not, its bucket and all "
       "later buckets were never sent, and the model would train without them: throw an Error "
       "with the gradient's name before you wait",
       [=](Trial& trial) {
         for (std::size_t missing = 0; missing < kNames.size(); ++missing) {
           Bench bench(trial, solution);
           const std::string text = complaint(bench, missing);
           trial.expect(text.empty(), "{} is missing, but {}", kNames[missing], text);
         }
       }},
      {"real-group", "it works with a process group that runs in its own thread",
       "from the start of an all-reduce to the end of its wait, the message belongs to the "
       "group: do not touch it. Gradients may be empty, and buckets may have any length",
       [=](Trial& trial) { expect_real(trial, solution); }},
  };
  return with_hang_hint(checks,
                        "collectives are matched by the order of the calls, not by name: all "
                        "ranks must start the "
                        "same buckets in the same order, and wait for them");
}

}  // namespace dist::exercise
