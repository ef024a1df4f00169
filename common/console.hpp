// What a program says: text for a reader, or one JSON object per line for a program.
//
// Of all ranks only rank 0 speaks: lines that several processes print by themselves arrive in
// any order. What the other ranks have to say travels to rank 0 first.
#pragma once

#include "common/communicator.hpp"
#include "common/json.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace dist {

class Console {
 public:
  // `speaks` is true on the one process that prints.
  explicit Console(bool json, bool speaks = true) : json_(json), speaks_(speaks) {}

  bool json() const { return json_; }
  bool speaks() const { return speaks_; }

  // A line of text for a reader; not printed with --json. (Not on standard error either: Open
  // MPI 5 can move part of a long standard output there when both are in use at once,
  // openpmix/openpmix#3858.)
  void line(const std::string& text) const;
  // A JSON row; printed only with --json. Non-finite numbers become null.
  void row(const Json& object) const;
  // The end of a program: "verified: ..." for the reader or "WRONG: ..." on standard error.
  // Returns the exit status: not 0 either if something of all this could not be printed.
  int verdict(bool correct, const std::string& verified, const std::string& wrong) const;

 private:
  bool json_;
  bool speaks_;
};

// Called on all ranks: each rank's text, on rank 0 in rank order; empty elsewhere.
std::vector<std::string> gather_text(const Communicator& comm, const std::string& text);

// Called on all ranks: prints each rank's text, or row, in rank order.
void lines_in_rank_order(const Console& console, const Communicator& comm,
                         const std::string& text);
void rows_in_rank_order(const Console& console, const Communicator& comm, const Json& object);

// Columns aligned to the right, headed by their names.
class Table {
 public:
  explicit Table(std::vector<std::string> header);
  void add(std::vector<std::string> cells);
  void print(const Console& console) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// `value` as it stands in JSON rows: rounded to 9 significant digits, which hold any float32.
double significant(double value);

// "512 B", "64 KiB", "16 MiB".
std::string format_bytes(std::size_t bytes);

}  // namespace dist
