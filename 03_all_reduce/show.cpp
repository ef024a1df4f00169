#include "03_all_reduce/show.hpp"

#include "03_all_reduce/choice/all_reducer.hpp"
#include "common/check.hpp"
#include "common/console.hpp"

#include <fmt/core.h>

#include <cstdint>

namespace dist {

std::vector<std::string> shown_algorithms() {
  std::vector<std::string> names{"both"};
  for (const auto& [name, algorithm] : kAllReduceAlgorithms) names.push_back(name);
  return names;
}

void check_shown(const Communicator& comm, const std::string& algorithm, bool picture) {
  if (algorithm == "shared-memory") require_host_memory("--algorithm", comm);
  if (picture && (comm.size() < 2 || comm.size() > kMostPictureRanks)) {
    throw Error(fmt::format("--picture: draws 2 to {} ranks", kMostPictureRanks));
  }
}

void all_reduce_by_name(const Communicator& comm, const std::string& algorithm,
                        std::span<float> data, ReduceOp op) {
  AllReducer(comm).all_reduce(data, op, kAllReduceAlgorithms.at(algorithm));
}

void draw_ring(const Program& program, bool asked_for) {
  const int size = program.comm.size();
  if (!asked_for && (size < 2 || size > 4)) return;
  for (const std::string& line : ring_picture(program.comm)) program.console.line(line);
}

std::string shares(unsigned long long sum) {
  std::string letters;
  for (char letter = 'a'; sum != 0; ++letter, sum /= 16) letters.append(sum % 16, letter);
  return letters;
}

std::vector<std::string> ring_picture(const Communicator& comm) {
  const int size = comm.size();
  // One element per chunk. Each rank contributes a different digit, so a sum shows which ranks
  // contributed to it, and how often.
  std::vector<std::uint64_t> data(static_cast<std::size_t>(size),
                                  std::uint64_t{1} << (4 * comm.rank()));
  std::string line = fmt::format("  rank {:<2}", comm.rank());
  // Every chunk arrives at a rank at most once in each half. So after a half, the tensor still
  // holds what has arrived in each of its steps: chunk rank - 2 - step in the first half, with
  // this rank's share added, and chunk rank - 1 - step in the second.
  const auto add_steps = [&](int first_chunk) {
    for (int step = 0; step < size - 1; ++step) {
      const int chunk = (first_chunk - step + 2 * size) % size;
      line += fmt::format("  {:>2}:{:<{}}", chunk,
                          shares(data[static_cast<std::size_t>(chunk)]), size);
    }
  };
  ring_reduce_scatter<std::uint64_t>(comm, data, ReduceOp::sum);
  add_steps(comm.rank() - 2);
  line += " |";
  ring_all_gather<std::uint64_t>(comm, data);
  add_steps(comm.rank() - 1);

  std::vector<std::string> lines = gather_text(comm, line);
  if (comm.rank() != 0) return {};
  std::string header = "  step   ";
  for (int step = 1; step <= 2 * (size - 1); ++step) {
    header += fmt::format("  {:>2} {:<{}}", step, "", size);
    if (step == size - 1) header += " |";
  }
  header.erase(header.find_last_not_of(' ') + 1);
  lines.insert(lines.begin(),
               {"the ring, step by step, as chunk:shares (a is rank 0's share)", header});
  return lines;
}

}  // namespace dist
