// Look at: how one all-reduce compares hashes. The texts are sent only if the hashes differ.
#include "05_ddp_training/trainer/guards.hpp"

#include "02_broadcast/fingerprint.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/data_parallel/replica_check.hpp"
#include "common/check.hpp"
#include "common/console.hpp"

#include <fmt/core.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <fstream>

namespace dist {
namespace {

std::uint64_t hash_of(const std::string& text) {
  Fingerprint hash;
  hash.add(text.data(), text.size());
  return hash.value();
}

std::string this_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::array<char, 1 << 16> piece;
  Fingerprint hash;
  do {
    file.read(piece.data(), piece.size());
    hash.add(piece.data(), static_cast<std::size_t>(file.gcount()));
  } while (file);
  return fmt::format("{:016x}", hash.value());
}

// Called on all ranks. Returns the first index at which `values` differ between ranks, or
// values.size() if none does. Hashes are equal if the largest one is the complement of the
// largest complement.
std::size_t first_disagreement(const Communicator& comm,
                               const std::vector<CommandLine::Value>& values) {
  std::vector<std::uint64_t> both;
  for (const CommandLine::Value& value : values) {
    both.push_back(hash_of(value.text));
    both.push_back(~both.back());
  }
  all_reduce<std::uint64_t>(comm, both, ReduceOp::max, AllReduceAlgorithm::recursive_doubling);
  std::size_t i = 0;
  while (i < values.size() && both[2 * i] == ~both[2 * i + 1]) ++i;
  return i;
}

sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

void require_agreement(const Communicator& comm, std::vector<CommandLine::Value> values) {
  // Different hosts may keep the same data in different folders.
  std::erase_if(values, [](const CommandLine::Value& value) { return value.flag == "--data"; });
  // The program comes first, because a different program may have different flags. Without an
  // agreement on it, nobody may count on equally many values.
  const std::vector<CommandLine::Value> program{{"the program's file", this_program()}};
  for (const auto& compared : {program, values}) {
    const std::size_t first = first_disagreement(comm, compared);
    if (first == compared.size()) continue;
    const std::string& name = compared[first].flag;
    // Only rank 0, where the values are gathered, can name them.
    const std::vector<std::string> all = gather_text(comm, compared[first].text);
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank] == all[0]) continue;
      const auto word = [](const std::string& text) { return text.empty() ? "nothing" : text; };
      throw Error(fmt::format("{}: {} on rank 0, but {} on rank {}", name, word(all[0]),
                              word(all[rank]), rank));
    }
    throw Error(name + ": not the same on all ranks");
  }
}

void hold_stop_signals() {
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void release_stop_signals() {
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

Guards::Guards(const Communicator& comm, std::span<const Parameter> parameters,
               GuardOptions options)
    : comm_(comm), parameters_(parameters), options_(options) {
  if (!options.stop_on_signal) release_stop_signals();
}

bool Guards::asked_to_stop() const {
  if (!options_.stop_on_signal) return false;
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGUSR1) == 1 || sigismember(&pending, SIGTERM) == 1;
}

std::string Guards::after_step(const UpdateState& update, bool anybody_asked) {
  stop_requested_ = stop_requested_ || anybody_asked;
  if (update.is_open()) return "";
  const std::string& culprit = parameters_[static_cast<std::size_t>(update.culprit)].name;
  if (update.skipped_in_a_row == UpdateState::kMostSkippedInARow && problem_.empty()) {
    problem_ =
        fmt::format("{} steps in a row had to be skipped: the gradient of {} is not finite",
                    update.skipped_in_a_row, culprit);
  }
  return culprit;
}

void Guards::compare_replicas(std::size_t steps, const Stream& stream) {
  const std::string difference = first_difference(comm_, parameters_, stream);
  if (difference.empty()) return;
  problem_ = fmt::format("the replicas differ after step {}, first in {}", steps, difference);
}

}  // namespace dist
