// What this file adds: a process group that records what passes through it, so that --explain
// can show the messages.
#pragma once

#include "05_ddp_training/process_group/forwarding_process_group.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dist {

class RecordingProcessGroup : public ForwardingProcessGroup {
 public:
  // One all-reduce: this rank's input, and the result.
  struct Exchange {
    std::vector<float> before;
    std::vector<float> after;
  };

  using ForwardingProcessGroup::ForwardingProcessGroup;

  std::unique_ptr<Work> all_reduce(const Tensor& tensor, ReduceOp op, const Stream& producer,
                                   const std::string& name,
                                   std::span<double> numbers) override {
    const std::size_t number = exchanges_.size();
    exchanges_.push_back({to_host(producer, tensor), {}});
    return std::make_unique<RecordingWork>(
        group_.all_reduce(tensor, op, producer, name, numbers),
        [this, number, tensor](const Stream& consumer) {
          exchanges_[number].after = to_host(consumer, tensor);
        });
  }

  // The recorded all-reduces, in the order in which they started.
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

  std::vector<Exchange> exchanges_;
};

}  // namespace dist
