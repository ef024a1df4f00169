// Belief:  the sampler reshuffles automatically in every epoch, as DataLoader does with
//          shuffle=True.
// Predict: how many different orders do five epochs have without set_epoch?
// You see: one. The hash of each rank's samples is the same in every epoch. With set_epoch,
//          there are five different orders.
// Why:     the order is drawn from seed + epoch, and the epoch stays 0 until set_epoch changes
//          it (distributed_sampler.cpp, indices_after).
// In the wild: pytorch/examples#1074.
#include "02_broadcast/fingerprint.hpp"
#include "04_distributed_sampler/break_it/experiments.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "common/join.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <set>
#include <vector>

namespace dist {
namespace {

std::uint64_t hash_of(const std::vector<std::size_t>& order) {
  Fingerprint hash;
  hash.add(order.data(), order.size() * sizeof(order[0]));
  return hash.value();
}

}  // namespace

bool break_no_set_epoch(const Program& program) {
  constexpr std::uint64_t kEpochs = 5;
  const Communicator& comm = program.comm;
  const auto samples = 100 * static_cast<std::size_t>(comm.size());
  DistributedSampler forgotten(samples, comm.size(), comm.rank(),
                               {.seed = program.common.seed});
  DistributedSampler told(samples, comm.size(), comm.rank(), {.seed = program.common.seed});
  std::vector<std::uint64_t> without, epoch_set;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    without.push_back(hash_of(forgotten.indices()));
    told.set_epoch(epoch);
    epoch_set.push_back(hash_of(told.indices()));
  }
  const auto different = [](const std::vector<std::uint64_t>& hashes) {
    return std::set(hashes.begin(), hashes.end()).size();
  };
  const auto line = [&](const char* name, const std::vector<std::uint64_t>& hashes) {
    std::vector<std::uint64_t> first_digits;
    for (const std::uint64_t hash : hashes) first_digits.push_back(hash >> 32);
    program.console.line(fmt::format("  {}  {}  {} different", name,
                                     join(first_digits, " ", "{:08x}"), different(hashes)));
  };
  program.console.line(
      fmt::format("hashes of rank 0's {} samples in epochs 0 to {}", 100, kEpochs - 1));
  line("no set_epoch", without);
  line("set_epoch   ", epoch_set);
  program.console.row({{"break", "no-set-epoch"},
                       {"ranks", comm.size()},
                       {"epochs", kEpochs},
                       {"orders_without", different(without)},
                       {"orders_with", different(epoch_set)}});
  return different(without) == 1 && different(epoch_set) == kEpochs;
}

}  // namespace dist
