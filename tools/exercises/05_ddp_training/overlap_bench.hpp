// What the checks of buckets work with: a model of five gradients, and a process group that
// sends as late as it may.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/exercise/gradient_sync.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "common/stream.hpp"
#include "tools/exercises/05_ddp_training/gradient_set.hpp"
#include "tools/exercises/message_checks.hpp"

#include <future>
#include <limits>

namespace dist::exercise {

using Overlaps = std::function<std::unique_ptr<GradientSync>(
    ProcessGroup&, std::vector<Gradient>, BucketPlan, const Stream&)>;

// A process group that records each call and does the work as late as allowed: waiting for an
// all-reduce runs it and those started before it, in order. Until then its tensor holds NaN, so
// that using the tensor too early is noticed.
class DeferredProcessGroup : public ProcessGroup {
 public:
  explicit DeferredProcessGroup(const Communicator& comm)
      : ProcessGroup(comm, /*overlaps=*/true, "deferred") {}

  Tensor allocate(Shape shape) override {
    ++allocations;
    return {std::move(shape), Device{}};
  }
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
  int allocations = 0;

 private:
  struct Started {
    Tensor tensor;
    std::vector<float> numbers;
    ReduceOp op;
  };

  void finish(std::size_t end) {
    for (; done_ < end; ++done_) {
      Started& next = started_[done_];
      // In which an element's place decides in which order its numbers are added.
      dist::all_reduce<float>(comm(), next.numbers, next.op, AllReduceAlgorithm::ring);
      std::ranges::copy(next.numbers, next.tensor.data());
    }
  }

  std::vector<Started> started_;
  std::size_t done_ = 0;
};

using Order = std::vector<std::size_t>;

// Five gradients in three buckets of 4, 6 and 7 elements.
inline const std::vector<std::string> kNames{"0.weight", "0.bias", "2.weight", "2.bias",
                                             "4.weight"};
inline const Lengths kLengths{7, 2, 4, 1, 3};
inline const BucketPlan kPlan{{4, 3}, {2, 1}, {0}};
inline const Order kSizes{4, 6, 7};
inline const Order kBackward{4, 3, 2, 1, 0};

inline std::vector<Gradient> named(GradientSet& gradients) {
  std::vector<Gradient> all;
  for (std::size_t g = 0; g < gradients.count(); ++g) {
    all.push_back({kNames[g], gradients.at(g)});
  }
  return all;
}

// A model and a solution that averages its gradients.
struct Bench {
  Bench(Trial& of, const Overlaps& solution, const Lengths& lengths = kLengths)
      : trial(of), gradients(lengths), group(of.comm()), stream(Device{}) {
    gradients.fill([](auto...) { return kOfNoStep; });
    sync = solution(group, named(gradients), kPlan, stream);
    gradients.fill_tracers(trial);
  }

  void mark_ready(const Order& order) {
    for (const std::size_t index : order) sync->mark_ready(index);
  }
  // Marks gradients as ready in this order, and expects started[i] all-reduces after call i.
  void expect_started(const Order& order, const Order& started, const std::string& in = "") {
    const std::size_t before = group.sizes.size();  // in earlier steps
    std::string ready;
    Order now;
    for (const std::size_t index : order) {
      sync->mark_ready(index);
      now.push_back(group.sizes.size() - before);
    }
    for (std::size_t call = 0; call < order.size(); ++call) {
      ready += (call > 0 ? ", " : "") + kNames[order[call]];
      const Seen otherwise = now[call] > started[call]      ? Seen::too_many
                             : now.back() == started.back() ? Seen::elsewhere  // later
                                                            : Seen::too_few;
      trial.expect(otherwise, now[call] == started[call],
                   "{}with {} ready, {} of the buckets [4.weight 2.bias] [2.weight 0.bias] "
                   "[0.weight] have started, expected {}",
                   in, ready, now[call], started[call]);
    }
  }

  Trial& trial;
  GradientSet gradients;
  DeferredProcessGroup group;
  Stream stream;
  std::unique_ptr<GradientSync> sync;
};

// What is wrong with what finalize throws if gradient `missing` was never ready.
inline std::string complaint(Bench& bench, std::size_t missing) {
  Order order = kBackward;
  std::erase(order, missing);
  bench.mark_ready(order);
  try {
    bench.sync->finalize();
  } catch (const Error& error) {
    const std::string what = error.what();
    for (std::size_t g = 0; g < kNames.size(); ++g) {
      if ((what.find(kNames[g]) != std::string::npos) != (g == missing)) {
        return "finalize threw: " + what;
      }
    }
    return "";
  } catch (const std::exception& other) {
    return fmt::format("the exception is not a dist::Error: {}", other.what());
  }
  return "finalize did not throw";
}

}  // namespace dist::exercise
