// Look at: require_agreement. Only rank 0 sees all values, but all ranks agree on the verdict.
#include "05_ddp_training/trainer/guards.hpp"

#include "common/check.hpp"
#include "common/console.hpp"
#include "common/hash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>

namespace dist {

static std::string this_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::array<char, 1 << 16> piece;
  Hash hash;
  do {
    file.read(piece.data(), piece.size());
    hash.add(piece.data(), static_cast<std::size_t>(file.gcount()));
  } while (file);
  return fmt::format("{:016x}", hash.value());
}

static void mask_stop_signals(int how) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(how, &signals, nullptr);
}

void require_agreement(const Communicator& comm, std::vector<CommandLine::Value> values) {
  // Different hosts may keep the same data in different folders.
  std::erase_if(values, [](const CommandLine::Value& value) { return value.flag == "--data"; });
  // The program comes first, because a different program may have different flags. Without an
  // agreement on it, nobody may count on equally many values.
  values.insert(values.begin(), {"the program's file", this_program()});
  for (const auto& [name, mine, effect, default_text] : values) {
    const std::vector<std::string> all = gather_text(comm, mine);  // empty except on rank 0
    const auto other =
        std::ranges::find_if(all, [&](const auto& text) { return text != mine; });
    if (comm.all_agree(other == all.end())) continue;
    if (other == all.end()) throw Error(name + ": not the same on all ranks");
    const auto word = [](const std::string& text) { return text.empty() ? "nothing" : text; };
    throw Error(fmt::format("{}: {} on rank 0, but {} on rank {}", name, word(mine),
                            word(*other), other - all.begin()));
  }
}

void hold_stop_signals() {
  mask_stop_signals(SIG_BLOCK);
}

void release_stop_signals() {
  mask_stop_signals(SIG_UNBLOCK);
}

bool asked_to_stop() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGUSR1) == 1 || sigismember(&pending, SIGTERM) == 1;
}

}  // namespace dist
