#include "03_all_reduce/show.hpp"

#include "01_send_recv/tracer_numbers.hpp"
#include "03_all_reduce/choice/all_reducer.hpp"
#include "common/console.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace dist {

std::vector<std::string> shown_algorithms() {
  std::vector<std::string> names{"both"};
  std::ranges::copy(kAllReduceAlgorithms.all(), std::back_inserter(names));
  return names;
}

void check_shown(const Communicator& comm, const std::string& algorithm) {
  if (algorithm == "shared-memory") require_host_memory("--algorithm", comm);
}

void all_reduce_by_name(const Communicator& comm, const std::string& algorithm,
                        std::span<float> data, ReduceOp op) {
  AllReducer(comm).all_reduce(data, op, kAllReduceAlgorithms.at(algorithm));
}

bool draw_ring(const Program& program) {
  const Communicator& comm = program.comm;
  const int size = comm.size();
  if (size < 2 || size > (program.console.json() ? 8 : 4)) return true;
  // One element per chunk. Rank r adds 16^r, so a sum's hexadecimal digits count the shares.
  std::vector<std::uint64_t> data(static_cast<std::size_t>(size),
                                  std::uint64_t{1} << (4 * comm.rank()));
  std::vector<float> numbers(data.size());  // the values of the rows
  fill_tracer_numbers(numbers, comm.rank());
  const auto shares = [&](int chunk) {
    std::string letters;
    std::uint64_t sum = data[static_cast<std::size_t>(chunk)];
    for (char letter = 'a'; sum != 0; ++letter, sum /= 16) letters.append(sum % 16, letter);
    return letters;
  };
  std::string header = "  step   ";
  std::string line = fmt::format("  rank {:<2}", comm.rank());
  std::vector<Json> messages;  // what this rank sends: the chunk after the one that it receives
  // Every chunk arrives at a rank at most once in each half. So after a half, the tensor still
  // holds what has arrived in each of its steps: chunk rank - 2 - step in the first half, with
  // this rank's share added, and chunk rank - 1 - step in the second.
  const auto add_steps = [&](int first_chunk) {
    for (int step = 0; step < size - 1; ++step) {
      const int chunk = (first_chunk - step + 2 * size) % size;
      const int sent = (chunk + 1) % size;
      messages.push_back({{"message", true},
                          {"step", messages.size() + 1},
                          {"from", comm.rank()},
                          {"to", comm.right()},
                          {"chunk", sent},
                          {"shares", shares(sent)},
                          {"values", {numbers[static_cast<std::size_t>(sent)]}}});
      header += fmt::format("  {:>2} {:<{}}", messages.size(), "", size);
      line += fmt::format("  {:>2}:{:<{}}", chunk, shares(chunk), size);
    }
  };
  ring_reduce_scatter<std::uint64_t>(comm, data, ReduceOp::sum);
  ring_reduce_scatter<float>(comm, numbers, ReduceOp::sum);
  add_steps(comm.rank() - 2);
  header += " |";
  line += " |";
  ring_all_gather<std::uint64_t>(comm, data);
  ring_all_gather<float>(comm, numbers);
  add_steps(comm.rank() - 1);

  program.console.line("the ring, step by step, as chunk:shares (a is rank 0's share)");
  program.console.line(header.substr(0, header.find_last_not_of(' ') + 1));
  lines_in_rank_order(program.console, comm, line);
  for (const Json& message : messages) rows_in_rank_order(program.console, comm, message);
  const std::uint64_t once_each = (std::uint64_t{1} << (4 * size)) / 15;  // 16^0 + 16^1 + ...
  return comm.all_agree(std::ranges::count(data, once_each) == size);
}

}  // namespace dist
