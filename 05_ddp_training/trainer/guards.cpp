// Look at: how one all-reduce compares hashes. The texts are sent only if the hashes differ.
#include "05_ddp_training/trainer/guards.hpp"

#include "02_broadcast/fingerprint.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "common/check.hpp"
#include "common/console.hpp"

#include <fmt/format.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <fstream>

namespace dist {
namespace {

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
    std::vector<std::uint64_t> largest;  // for each value, of the hashes and their complements
    for (const auto& [name, text] : compared) {
      Fingerprint hash;
      hash.add(text.data(), text.size());
      largest.push_back(hash.value());
      largest.push_back(~hash.value());
    }
    all_reduce<std::uint64_t>(comm, largest, ReduceOp::max);
    for (std::size_t i = 0; i < compared.size(); ++i) {
      if (largest[2 * i] == ~largest[2 * i + 1]) continue;  // all hashes are equal
      const auto& [name, mine] = compared[i];
      // Only rank 0, where the values are gathered, can name them.
      const std::vector<std::string> all = gather_text(comm, mine);
      for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] == mine) continue;
        const auto word = [](const std::string& text) {
          return text.empty() ? "nothing" : text;
        };
        throw Error(fmt::format("{}: {} on rank 0, but {} on rank {}", name, word(mine),
                                word(all[rank]), rank));
      }
      throw Error(name + ": not the same on all ranks");
    }
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

bool asked_to_stop() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGUSR1) == 1 || sigismember(&pending, SIGTERM) == 1;
}

}  // namespace dist
