// A process group for tests of what is sent when.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"
#include "tests/support/mpi_test.hpp"

#include <cstddef>
#include <future>
#include <memory>
#include <utility>
#include <vector>

namespace dist::test {

// A process group that sends nothing and records the calls.
class Recorder : public ProcessGroup {
 public:
  Recorder() : ProcessGroup(world(), /*overlaps=*/false, "recorder") {}
  Tensor allocate(Shape shape) override { return {std::move(shape), Device{}}; }
  std::unique_ptr<Work> start(const Collective& collective, const Stream&) override {
    if (collective.kind == Collective::Kind::all_reduce) {
      reduced.push_back(collective.tensor.numel());
    }
    return std::make_unique<Work>(
        Event(), std::async(std::launch::deferred, [] { return 0.0; }).share());
  }
  void synchronize(const Event&) override {}

  std::vector<std::size_t> reduced;  // the number of elements of each all-reduce, in order
};

}  // namespace dist::test
