// What this file adds: a process group that records what passes through it, so that --explain
// can show the messages.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace dist {

class RecordingProcessGroup : public ProcessGroup {
 public:
  // One all-reduce: this rank's input, and the tensor, which holds the result after the step.
  struct Exchange {
    std::vector<float> before;
    Tensor tensor;
  };

  // `group` does the work, and must outlive this.
  explicit RecordingProcessGroup(ProcessGroup& group)
      : ProcessGroup(group.comm(), group.overlaps(), group.description()), group_(group) {}

  Tensor allocate(Shape shape) override { return group_.allocate(std::move(shape)); }
  std::unique_ptr<Work> start(const Collective& collective, const Stream& producer) override {
    if (collective.kind == Collective::Kind::all_reduce) {
      exchanges_.push_back({to_host(producer, collective.tensor), collective.tensor});
    }
    return group_.start(collective, producer);
  }
  void synchronize(const Event& event) override { group_.synchronize(event); }

  // The recorded all-reduces, in the order in which they started.
  const std::vector<Exchange>& exchanges() const { return exchanges_; }

 private:
  ProcessGroup& group_;
  std::vector<Exchange> exchanges_;
};

}  // namespace dist
