// Look at: how one all-reduce compares hashes. The texts are sent only if the hashes differ.
#include "05_ddp_training/trainer/guards/agreement.hpp"

#include "02_broadcast/fingerprint.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "common/check.hpp"
#include "common/console.hpp"

#include <fmt/core.h>

#include <array>
#include <fstream>
#include <string>

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

// Called on all ranks. Returns the first index at which `hashes` differ between ranks, or
// hashes.size() if none does. As in replica_check, hashes are equal if the largest one is the
// complement of the largest complement.
std::size_t first_disagreement(const Communicator& comm,
                               const std::vector<std::uint64_t>& hashes) {
  std::vector<std::uint64_t> both;
  for (const std::uint64_t hash : hashes) {
    both.push_back(hash);
    both.push_back(~hash);
  }
  all_reduce<std::uint64_t>(comm, both, ReduceOp::max, AllReduceAlgorithm::recursive_doubling);
  std::size_t i = 0;
  while (i < hashes.size() && both[2 * i] == ~both[2 * i + 1]) ++i;
  return i;
}

// Called on all ranks, each with its own value of `name`. Throws on all ranks, but only rank 0,
// where the values are gathered, can name them.
[[noreturn]] void report(const Communicator& comm, const std::string& name,
                         const std::string& mine) {
  const std::vector<std::string> all = gather_text(comm, mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const auto word = [](const std::string& text) { return text.empty() ? "nothing" : text; };
    throw Error(fmt::format("{}: {} on rank 0, but {} on rank {}", name, word(all[0]),
                            word(all[rank]), rank));
  }
  throw Error(name + ": not the same on all ranks");
}

}  // namespace

void require_agreement(const Communicator& comm, std::vector<CommandLine::Value> values) {
  // The program comes first, because a different program may have different flags.
  const std::string program = this_program();
  if (first_disagreement(comm, {hash_of(program)}) == 0) {
    report(comm, "the program's file", program);
  }
  // Different hosts may keep the same data in different folders.
  std::erase_if(values, [](const CommandLine::Value& value) { return value.flag == "--data"; });
  std::vector<std::uint64_t> hashes;
  for (const auto& [flag, text] : values) hashes.push_back(hash_of(text));
  const std::size_t first = first_disagreement(comm, hashes);
  if (first < values.size()) report(comm, values[first].flag, values[first].text);
}

}  // namespace dist
