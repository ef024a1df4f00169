// Shared by the tests of lesson 5: a small model, random data that fit the model, and process
// groups.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "02_broadcast/random.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "tests/support/device_numbers.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dist::test {

inline const std::vector<std::size_t> kWidths{5, 7, 6, 3};

inline std::size_t ranks() {
  return static_cast<std::size_t>(world().size());
}
inline std::size_t rank() {
  return static_cast<std::size_t>(world().rank());
}

inline Mlp make_model(std::uint64_t seed, const Stream& stream,
                      const std::vector<std::size_t>& widths = kWidths) {
  Generator generator(seed);
  return {widths, generator, stream};
}

inline TensorDataset make_dataset(std::size_t samples, std::uint64_t seed,
                                  const std::vector<std::size_t>& widths = kWidths) {
  Generator generator(seed);
  return synthetic_dataset(samples, widths.front(), widths.back(), generator);
}

// Every device in every precision.
struct Kind {
  Device device;
  Precision precision;
};
inline std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const Device device : devices()) {
    for (const auto precision : {Precision::fp32, Precision::bf16}) {
      all.push_back({device, precision});
    }
  }
  return all;
}

// All parameters, or all gradients, in one list.
inline Floats flat(const Mlp& model, Tensor Parameter::*which, const Stream& stream) {
  Floats all;
  for (const Parameter& parameter : model.parameters()) {
    const Floats numbers = to_host(stream, parameter.*which);
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}

// Every gradient is a bucket of its own, or all of them are in one.
inline BucketCaps caps(bool one_by_one) {
  return one_by_one ? BucketCaps{0, 0} : BucketCaps{};
}

// Every way of carrying gradients on `device`. All ranks must call this function.
struct Carrier {
  std::string name;
  std::unique_ptr<ProcessGroup> group;
};
inline std::vector<Carrier> carriers(Device device) {
  std::vector<Carrier> all;
  for (const auto& [name, algorithm] : kAllReduceAlgorithms) {
    const Backend backend = algorithm == AllReduceAlgorithm::mpi ? Backend::mpi : Backend::ours;
    for (const bool overlap : {false, true}) {
      all.push_back({name + (overlap ? ", on a thread" : ""),
                     make_process_group(backend, world(), device, algorithm, overlap)});
    }
  }
  if (why_no_nccl(world(), device).empty()) {
    all.push_back({"nccl", make_process_group(Backend::nccl, world(), device,
                                              AllReduceAlgorithm::automatic)});
  }
  return all;
}

}  // namespace dist::test
