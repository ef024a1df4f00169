// The flags of a program, read strictly: absurd values are refused, not rounded or wrapped.
#pragma once

#include "common/communicator.hpp"

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dist {

// Declare the flags, then parse once. Each variable's value at declaration is its default.
class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Flags declared from here on are shown by --help-all only.
  void advanced();

  void flag(const std::string& name, bool& value, const std::string& help);
  template <std::integral T>
  void number(const std::string& name, T& value, T smallest, T largest,
              const std::string& help);
  void number(const std::string& name, double& value, double smallest, double largest,
              const std::string& help);
  // Comma-separated numbers, as many as `values` holds.
  void numbers(const std::string& name, std::span<double> values, double smallest,
               double largest, const std::string& help);
  void choice(const std::string& name, std::string& value, std::vector<std::string> allowed,
              const std::string& help);
  void text(const std::string& name, std::string& value, const std::string& help);
  // Comma-separated positive whole numbers.
  void list(const std::string& name, std::vector<std::size_t>& value, const std::string& help);

  // Whether the reader gave this flag.
  bool given(const std::string& name) const;

  // Every flag declared, with its variable's value now, as text: what a run is, in words that
  // two runs, or two ranks, can compare. A flag of its own for both answers ("--shuffle,
  // !--no-shuffle") stands under its first name.
  struct Value {
    std::string flag;
    std::string text;
  };
  std::vector<Value> values() const;

  // Adds a check that runs after the flags are read: for flags that must fit each other, or the
  // files they name. It throws Error("--flag: what is wrong").
  void check(std::function<void()> check);
  // The same for a check that sends messages: it runs after every rank's other checks have
  // passed, so that all ranks come to it.
  void check_together(std::function<void()> check);

  // What reading the flags led to: go on (nullopt), or print `text` and leave with `status`
  // (0 for --help and --version, 2 for bad usage). Never throws for what the reader typed.
  struct Exit {
    int status;
    std::string text;
  };
  std::optional<Exit> parse(int argc, char** argv);
  std::optional<Exit> run_checks_together();

 private:
  // `show` gives the variable's value as text: the default in the help, and values().
  void add(const std::string& name, const std::string& type, const std::string& help,
           std::function<std::string()> show, std::function<void(const std::string&)> read);
  template <class T>
  static T parse_between(const std::string& name, const std::string& text, T smallest,
                         T largest);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Called on all ranks. A mistake that one rank finds (a file that only one host has) is a
// mistake of all: the ranks agree by one reduction, rank 0 prints, and every rank gets the exit
// status. Printing on each rank, or leaving before MPI_Init, loses or multiplies the message.
//
// Adds the flags of the watch, if it is there (common/watch.hpp). `comm` holds all ranks.
std::optional<int> parse(CommandLine& command_line, const Communicator& comm, int argc,
                         char** argv);

// The flags that every program has.
struct CommonOptions {
  std::string device = "auto";
  std::uint64_t seed = 0;
  bool json = false;
  int threads = 1;

  void declare(CommandLine& command_line);
};

template <std::integral T>
void CommandLine::number(const std::string& name, T& value, T smallest, T largest,
                         const std::string& help) {
  // Read as a signed 64-bit number and checked, so that -5 never becomes 18446744073709551611.
  constexpr auto kLimit = std::numeric_limits<std::int64_t>::max();
  const auto bound = [](T limit) {
    return std::cmp_greater(limit, kLimit) ? kLimit : static_cast<std::int64_t>(limit);
  };
  add(
      name, "N", help, [&value] { return std::to_string(value); },
      [name, &value, low = bound(smallest), high = bound(largest)](const std::string& text) {
        value = static_cast<T>(parse_between(name, text, low, high));
      });
}

}  // namespace dist
