// What this file adds: a process group that keeps what passes through it, for a reader who
// wants to see the messages (explain). Every call goes on to another group, which does the
// work.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dist {

class RecordingProcessGroup : public ProcessGroup {
 public:
  // One all-reduce: this rank's numbers when it started, and everybody's when it was done.
  struct Exchange {
    std::vector<float> before;
    std::vector<float> after;
  };

  // `group` must outlive this one.
  explicit RecordingProcessGroup(ProcessGroup& group) : group_(group) {}

  Tensor allocate(Shape shape) override { return group_.allocate(std::move(shape)); }
  std::unique_ptr<Work> all_reduce(const Tensor& tensor, ReduceOp op, const Stream& producer,
                                   const std::string& name) override {
    const std::size_t number = exchanges_.size();
    exchanges_.push_back({to_host(producer, tensor), {}});
    return std::make_unique<RecordingWork>(group_.all_reduce(tensor, op, producer, name),
                                           [this, number, tensor](const Stream& consumer) {
                                             exchanges_[number].after =
                                                 to_host(consumer, tensor);
                                           });
  }
  std::unique_ptr<Work> broadcast(const Tensor& tensor, int root,
                                  const Stream& producer) override {
    return group_.broadcast(tensor, root, producer);
  }
  std::unique_ptr<Work> mean(std::span<double> numbers, std::span<double> result,
                             const Stream& producer) override {
    return group_.mean(numbers, result, producer);
  }
  const Communicator& comm() const override { return group_.comm(); }
  void synchronize(const Stream& stream) override { group_.synchronize(stream); }
  bool overlaps() const override { return group_.overlaps(); }
  std::string description() const override { return group_.description(); }

  // In the order in which they started.
  const std::vector<Exchange>& exchanges() const { return exchanges_; }

 private:
  class RecordingWork : public Work {
   public:
    RecordingWork(std::unique_ptr<Work> work, std::function<void(const Stream&)> record)
        : work_(std::move(work)), record_(std::move(record)) {}
    bool is_completed() override { return work_->is_completed(); }
    void wait(const Stream& consumer) override {
      work_->wait(consumer);
      record_(consumer);
    }
    void synchronize() override { work_->synchronize(); }
    double elapsed_ms() override { return work_->elapsed_ms(); }

   private:
    std::unique_ptr<Work> work_;
    std::function<void(const Stream&)> record_;
  };

  ProcessGroup& group_;
  std::vector<Exchange> exchanges_;
};

}  // namespace dist
