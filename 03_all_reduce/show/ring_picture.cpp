#include "03_all_reduce/show/ring_picture.hpp"

#include "03_all_reduce/ring.hpp"
#include "common/console.hpp"

#include <fmt/core.h>

#include <cstdint>

namespace dist {

std::string shares(unsigned long long sum) {
  std::string letters;
  for (char letter = 'a'; sum != 0; ++letter, sum /= 16) letters.append(sum % 16, letter);
  return letters;
}

std::vector<std::string> ring_picture(const Communicator& comm) {
  const int size = comm.size();
  std::vector<std::uint64_t> data(static_cast<std::size_t>(size),
                                  std::uint64_t{1} << (4 * comm.rank()));
  std::string line = fmt::format("  rank {:<2}", comm.rank());
  const auto cell = [&](int chunk) {
    chunk = (chunk % size + size) % size;
    line += fmt::format("  {:>2}:{:<{}}", chunk, shares(data[static_cast<std::size_t>(chunk)]),
                        size);
  };
  // The number of the chunk that has just arrived is rank - 2 - step in the first half of the
  // ring's steps and rank - 1 - step in the second half.
  ring_reduce_scatter<std::uint64_t>(comm, data, ReduceOp::sum,
                                     [&](int step) { cell(comm.rank() - 2 - step); });
  line += " |";
  ring_all_gather<std::uint64_t>(comm, data, [&](int step) { cell(comm.rank() - 1 - step); });

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
