// A data set that records which threads read which samples, and throws for one chosen sample.
#pragma once

#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "tests/support/lesson04.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>

namespace dist::test {

class Recorder : public Dataset {
 public:
  explicit Recorder(std::size_t size, std::size_t broken = SIZE_MAX)
      : data_(numbered(size, 3)), broken_(broken) {}

  std::size_t size() const override { return data_.size(); }
  std::size_t features() const override { return data_.features(); }
  std::size_t classes() const override { return data_.classes(); }
  bool reads_file() const override { return true; }
  std::int32_t get(std::size_t index, std::span<float> row) const override {
    if (index == broken_) {
      {
        const std::lock_guard lock(mutex_);
        threw_ = true;
        changed_.notify_all();
      }
      throw Error("sample " + std::to_string(index) + " is broken");
    }
    const std::int32_t label = data_.get(index, row);
    const std::lock_guard lock(mutex_);
    reads_.push_back(index);
    threads_.insert(std::this_thread::get_id());
    changed_.notify_all();
    return label;
  }

  void wait_for(std::size_t count) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reads_.size() >= count; });
  }
  void wait_for_throw() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return threw_; });
  }
  Indices reads() const {
    const std::lock_guard lock(mutex_);
    return reads_;
  }
  std::set<std::thread::id> threads() const {
    const std::lock_guard lock(mutex_);
    return threads_;
  }

 private:
  TensorDataset data_;
  std::size_t broken_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable Indices reads_;
  mutable bool threw_ = false;
  mutable std::set<std::thread::id> threads_;
};

}  // namespace dist::test
