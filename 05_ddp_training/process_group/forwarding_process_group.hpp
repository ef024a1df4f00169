// What this file adds: a process group that forwards every call to another one. Derived classes
// that record or delay messages override only the calls they need.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"

#include <memory>
#include <span>
#include <string>
#include <utility>

namespace dist {

class ForwardingProcessGroup : public ProcessGroup {
 public:
  // `group` must outlive this object.
  explicit ForwardingProcessGroup(ProcessGroup& group) : group_(group) {}

  Tensor allocate(Shape shape) override { return group_.allocate(std::move(shape)); }
  std::unique_ptr<Work> all_reduce(const Tensor& tensor, ReduceOp op, const Stream& producer,
                                   const std::string& name,
                                   std::span<double> numbers) override {
    return group_.all_reduce(tensor, op, producer, name, numbers);
  }
  std::unique_ptr<Work> reduce_scatter(const Tensor& tensor, ReduceOp op,
                                       const Stream& producer, const std::string& name,
                                       std::span<double> numbers) override {
    return group_.reduce_scatter(tensor, op, producer, name, numbers);
  }
  std::unique_ptr<Work> all_gather(const Tensor& tensor, const Stream& producer,
                                   const std::string& name) override {
    return group_.all_gather(tensor, producer, name);
  }
  std::unique_ptr<Work> broadcast(const Tensor& tensor, int root,
                                  const Stream& producer) override {
    return group_.broadcast(tensor, root, producer);
  }
  const Communicator& comm() const override { return group_.comm(); }
  void synchronize(const Event& event) override { group_.synchronize(event); }
  bool overlaps() const override { return group_.overlaps(); }
  std::string description() const override { return group_.description(); }

 protected:
  ProcessGroup& group_;
};

}  // namespace dist
