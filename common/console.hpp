// A program's output: text for a reader, or one JSON object per line for a program.
//
// Only rank 0 prints, because lines from several processes arrive in any order. The other ranks
// send their text to rank 0.
#pragma once

#include "common/communicator.hpp"

#include <fmt/format.h>
#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace dist {

// A JSON value whose objects keep the order of their members. A file that makes one includes
// <nlohmann/json.hpp>, which takes a second to compile.
using Json = nlohmann::ordered_json;

// On one line. Non-finite numbers become null, and bytes that are not UTF-8, such as those of a
// file's name, are replaced.
std::string to_text(const Json& value);

class Console {
 public:
  // `speaks` is true only on the process that prints.
  explicit Console(bool json, bool speaks = true) : json_(json), speaks_(speaks) {}

  bool json() const { return json_; }
  bool speaks() const { return speaks_; }

  // Prints a line of text for a reader, except with --json. (It does not go to standard error
  // instead: Open MPI 5 can move part of a long standard output there when both are in use,
  // openpmix/openpmix#3858.)
  void line(const std::string& text) const;
  // The same for a text with values: line("{} of {}", some, all).
  template <class... T>
  void line(fmt::format_string<T...> text, T&&... values) const {
    line(fmt::format(text, std::forward<T>(values)...));
  }
  // Prints a JSON row, but only with --json.
  void row(const Json& object) const;
  // The end of a program, called on all ranks of it: prints "verified: ...", or "WRONG: ..." on
  // standard error, with the reason of the first rank that finds its result not `correct`.
  // Returns the exit status, which is the same on all ranks: not 0 if any rank's result is
  // wrong or any output could not be written.
  int verdict(const Communicator& comm, bool correct, const std::string& verified,
              const std::string& wrong) const;

 private:
  bool json_, speaks_;
};

// Called on all ranks. On rank 0, returns the texts in rank order; elsewhere, an empty list.
std::vector<std::string> gather_text(const Communicator& comm, const std::string& text);
// Called on all ranks. Returns the text of rank `root` on all of them.
std::string broadcast_text(const Communicator& comm, std::string text, int root);

// Called on all ranks. Prints each rank's text, or row, in rank order.
void lines_in_rank_order(const Console& console, const Communicator& comm,
                         const std::string& text);
template <class... T>
void lines_in_rank_order(const Console& console, const Communicator& comm,
                         fmt::format_string<T...> text, T&&... values) {
  lines_in_rank_order(console, comm, fmt::format(text, std::forward<T>(values)...));
}
void rows_in_rank_order(const Console& console, const Communicator& comm, const Json& object);

// Right-aligned columns under their names.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void print(const Console& console) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Returns `value` rounded to 9 significant digits, for JSON rows: enough for any float32.
double significant(double value);

// "512 B", "64 KiB", "16 MiB".
std::string format_bytes(std::size_t bytes);

}  // namespace dist
