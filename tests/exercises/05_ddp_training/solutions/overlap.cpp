// Right and wrong ways to overlap. The wrong ones change one thing of a right one.
#include "tests/exercises/05_ddp_training/reference/overlap.hpp"

#include "tests/exercises/05_ddp_training/solutions/solutions.hpp"

namespace dist::exercise {
namespace {

// Right, differently written: counts what each bucket misses, and fills a message as gradients
// come.
class Counting : public GradientSync {
 public:
  Counting(ProcessGroup& group, std::vector<Gradient> gradients, BucketPlan plan,
           const Stream& compute)
      : group_(group),
        gradients_(std::move(gradients)),
        plan_(std::move(plan)),
        compute_(compute),
        bucket_of_(gradients_.size()),
        window_(gradients_.size()),
        ready_(gradients_.size()),
        works_(plan_.size()) {
    for (std::size_t b = 0; b < plan_.size(); ++b) {
      std::size_t count = 0;
      for (const std::size_t index : plan_[b]) count += gradients_[index].values.size();
      messages_.push_back(group_.allocate({count}));
      std::size_t begin = 0;
      for (const std::size_t index : plan_[b]) {
        bucket_of_[index] = b;
        window_[index] = messages_[b].span().subspan(begin, gradients_[index].values.size());
        begin += gradients_[index].values.size();
      }
    }
    Counting::reset();
  }

  void mark_ready(std::size_t index) override {
    ready_[index] = true;
    fill(index);
    --missing_[bucket_of_[index]];
    start_full();
  }
  void finalize() override {
    complain();
    for (std::size_t b = 0; b < plan_.size(); ++b) wait(b);
    for (std::size_t b = 0; b < plan_.size(); ++b) put_back(b);
    reset();
  }

 protected:
  virtual void fill(std::size_t index) {
    std::ranges::copy(gradients_[index].values, window_[index].begin());
  }
  virtual void start_full() {
    for (; next_ < plan_.size() && missing_[next_] == 0; ++next_) start(next_);
  }
  virtual void start(std::size_t bucket) { launch(bucket, ReduceOp::avg); }
  virtual void complain() {
    for (std::size_t i = 0; i < ready_.size(); ++i) {
      if (!ready_[i]) throw Error(gradients_[i].name + " never became ready");
    }
  }
  virtual void wait(std::size_t bucket) { works_[bucket]->wait(compute_); }
  virtual void put_back(std::size_t bucket) {
    for (const std::size_t index : plan_[bucket]) {
      std::ranges::copy(window_[index], gradients_[index].values.begin());
    }
  }
  virtual void reset() {
    ready_.assign(gradients_.size(), false);
    missing_.clear();
    for (const auto& bucket : plan_) missing_.push_back(bucket.size());
    next_ = 0;
  }
  void launch(std::size_t bucket, ReduceOp op) {
    works_[bucket] = group_.all_reduce(messages_[bucket], op, compute_);
  }

  ProcessGroup& group_;
  std::vector<Gradient> gradients_;
  BucketPlan plan_;
  const Stream& compute_;
  std::vector<std::size_t> bucket_of_;
  std::vector<std::span<float>> window_;  // each gradient's place in its message
  std::vector<bool> ready_;
  std::vector<Tensor> messages_;
  std::vector<std::unique_ptr<Work>> works_;
  std::vector<std::size_t> missing_;  // of each bucket
  std::size_t next_ = 0;
};

// DDP without buckets: every gradient is a bucket of its own.
std::unique_ptr<GradientSync> per_gradient(ProcessGroup& group, std::vector<Gradient> gradients,
                                           const BucketPlan& plan, const Stream& compute) {
  BucketPlan single;
  for (const auto& bucket : plan) {
    for (const std::size_t index : bucket) single.push_back({index});
  }
  return overlap(group, std::move(gradients), single, compute);
}

class StartsAtTheFirst : public Counting {
  using Counting::Counting;
  void start_full() override {
    for (; next_ < plan_.size() && missing_[next_] < plan_[next_].size(); ++next_) start(next_);
  }
};

class StartsInFinalize : public Counting {
  using Counting::Counting;
  void start_full() override {}
  void wait(std::size_t bucket) override {
    start(bucket);
    Counting::wait(bucket);
  }
};

class WaitsAtOnce : public Counting {
  using Counting::Counting;
  void start(std::size_t bucket) override {
    Counting::start(bucket);
    Counting::wait(bucket);
  }
  void wait(std::size_t) override {}
};

class StartsWhatIsFull : public Counting {
  using Counting::Counting;
  void mark_ready(std::size_t index) override {
    ready_[index] = true;
    fill(index);
    if (--missing_[bucket_of_[index]] == 0) start(bucket_of_[index]);
  }
};

class StartsOneAtATime : public Counting {
  using Counting::Counting;
  void start_full() override {
    if (next_ < plan_.size() && missing_[next_] == 0) start(next_++);
  }
};

class DoesNotWait : public Counting {
  using Counting::Counting;
  void wait(std::size_t) override {}
};

class WaitsForTheLast : public Counting {
  using Counting::Counting;
  void wait(std::size_t bucket) override {
    if (bucket + 1 == plan_.size()) Counting::wait(bucket);
  }
};

class ReadsBeforeItWaits : public Counting {
  using Counting::Counting;
  void wait(std::size_t bucket) override {
    Counting::put_back(bucket);
    Counting::wait(bucket);
  }
  void put_back(std::size_t) override {}
};

class Sums : public Counting {
  using Counting::Counting;
  void start(std::size_t bucket) override { launch(bucket, ReduceOp::sum); }
};

// Believes that the gradients are windows on the message, as they are in the lesson.
class CopiesNothingIn : public Counting {
  using Counting::Counting;
  void fill(std::size_t) override {}
};

class CopiesNothingBack : public Counting {
  using Counting::Counting;
  void put_back(std::size_t) override {}
};

class FillsAfterTheStart : public Counting {
  using Counting::Counting;
  void fill(std::size_t) override {}
  void start(std::size_t bucket) override {
    Counting::start(bucket);
    for (const std::size_t index : plan_[bucket]) Counting::fill(index);
  }
};

class GoodForOneStep : public Counting {
  using Counting::Counting;
  void reset() override {}
};

// Waits for what was started, and says nothing of the rest.
class IgnoresMissing : public Counting {
  using Counting::Counting;
  void complain() override {}
  void wait(std::size_t bucket) override {
    if (works_[bucket]) Counting::wait(bucket);
  }
};

class NamesNobody : public Counting {
  using Counting::Counting;
  void complain() override {
    if (next_ < plan_.size()) throw Error("a gradient never became ready");
  }
};

template <class Sync>
std::unique_ptr<GradientSync> make(ProcessGroup& group, std::vector<Gradient> gradients,
                                   BucketPlan plan, const Stream& compute) {
  return std::make_unique<Sync>(group, std::move(gradients), std::move(plan), compute);
}

}  // namespace

std::vector<Solution> overlap_solutions() {
  const auto known = [](const char* name, const Overlaps& solution) {
    return Solution{"overlap", name, checks_of_overlap(solution)};
  };
  return {
      known("reference", overlap),
      known("counting", make<Counting>),
      known("per-gradient", per_gradient),
      known("first-ready", make<StartsAtTheFirst>),
      known("in-finalize", make<StartsInFinalize>),
      known("waits-at-once", make<WaitsAtOnce>),
      known("ready-order", make<StartsWhatIsFull>),
      known("one-at-a-time", make<StartsOneAtATime>),
      known("no-wait", make<DoesNotWait>),
      known("waits-for-last", make<WaitsForTheLast>),
      known("reads-early", make<ReadsBeforeItWaits>),
      known("sum", make<Sums>),
      known("no-copy-in", make<CopiesNothingIn>),
      known("no-copy-back", make<CopiesNothingBack>),
      known("fills-late", make<FillsAfterTheStart>),
      known("one-step", make<GoodForOneStep>),
      known("ignores-missing", make<IgnoresMissing>),
      known("nameless", make<NamesNobody>),
  };
}

}  // namespace dist::exercise
