#include "common/console.hpp"

#include "common/check.hpp"
#include "common/watch.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace dist {

// If the text cannot be written, ferror(stdout) remembers the failure.
static void say(const std::string& text) {
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
}

std::string to_text(const Json& value) {
  return value.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

void Console::line(const std::string& text) const {
  if (speaks_ && !json_) say(text);
}

void Console::row(const Json& object) const {
  if (speaks_ && json_) say(to_text(object));
}

int Console::verdict(const Communicator& comm, bool correct, const std::string& verified,
                     const std::string& wrong) const {
  // If a rank alone knew that its result is wrong, the others would say that it is verified.
  const std::optional<int> first_wrong = comm.first_to_disagree(correct);
  const std::string why = first_wrong ? broadcast_text(comm, wrong, *first_wrong) : "";
  if (const WatchTable* const watch = watch_table()) watch->finish_trace();
  if (!first_wrong) line("verified: " + verified);
  const bool all_said = !speaks_ || std::ferror(stdout) == 0;
  if (!all_said) fmt::print(stderr, "error: standard output cannot be written\n");
  if (speaks_ && first_wrong) fmt::print(stderr, "WRONG: {}\n", why);
  return comm.all_agree(all_said && !first_wrong) ? EXIT_SUCCESS : EXIT_FAILURE;
}

std::vector<std::string> gather_text(const Communicator& comm, const std::string& text) {
  if (comm.size() == 1) return {text};
  const std::vector<std::size_t> lengths = comm.all_gather(text.size());
  const std::size_t longest = std::ranges::max(lengths);
  const int count = mpi_count(longest);
  const bool is_root = comm.rank() == 0;
  std::string padded = text;
  padded.resize(longest);
  std::string all(is_root ? longest * lengths.size() : 0, '\0');
  MPI_CHECK(MPI_Gather(padded.data(), count, MPI_CHAR, all.data(), count, MPI_CHAR, /*root=*/0,
                       comm.get()));
  std::vector<std::string> texts;
  for (std::size_t rank = 0; is_root && rank < lengths.size(); ++rank) {
    texts.emplace_back(all, rank * longest, lengths[rank]);
  }
  return texts;
}

std::string broadcast_text(const Communicator& comm, std::string text, int root) {
  if (comm.size() == 1) return text;
  std::uint64_t length = text.size();
  MPI_CHECK(MPI_Bcast(&length, 1, MPI_UINT64_T, root, comm.get()));
  text.resize(length);
  MPI_CHECK(MPI_Bcast(text.data(), mpi_count(length), MPI_CHAR, root, comm.get()));
  return text;
}

void lines_in_rank_order(const Console& console, const Communicator& comm,
                         const std::string& text) {
  for (const std::string& line : gather_text(comm, text)) console.line(line);
}

void rows_in_rank_order(const Console& console, const Communicator& comm, const Json& object) {
  if (!console.json()) return;
  for (const std::string& text : gather_text(comm, to_text(object))) say(text);
}

void Table::print(const Console& console) const {
  std::vector<std::size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  for (const auto& row : rows_) {
    std::string text;
    for (std::size_t c = 0; c < row.size(); ++c)
      text += fmt::format("  {:>{}}", row[c], widths[c]);
    console.line(text);
  }
}

double significant(double value) {
  return std::isfinite(value) ? std::strtod(fmt::format("{:.9g}", value).c_str(), nullptr)
                              : value;
}

std::string format_bytes(std::size_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  for (; unit + 1 < kUnits.size() && bytes >= 1024 && bytes % 1024 == 0; ++unit) bytes /= 1024;
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

}  // namespace dist
