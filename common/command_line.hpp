// The flags of a program, read strictly: absurd values are refused, not rounded or wrapped.
#pragma once

#include "common/communicator.hpp"

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dist {

// Declare the flags, then parse once. Each variable's initial value is its flag's default.
class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Only --help-all shows flags that are declared after this call.
  void advanced();

  void flag(const std::string& name, bool& value, const std::string& help);
  // With `units`, such as "KMG", the number may end in one: 1K is 1024, and 1M is 1024K.
  template <std::integral T>
  void number(const std::string& name, T& value, std::int64_t smallest, std::int64_t largest,
              const std::string& help, std::string_view units = "");
  void number(const std::string& name, double& value, double smallest, double largest,
              const std::string& help);
  // Exactly values.size() comma-separated numbers.
  void numbers(const std::string& name, std::span<double> values, double smallest,
               double largest, const std::string& help);
  void choice(const std::string& name, std::string& value, std::vector<std::string> allowed,
              const std::string& help);
  void text(const std::string& name, std::string& value, const std::string& help);
  // Comma-separated positive whole numbers.
  void list(const std::string& name, std::vector<std::size_t>& value, const std::string& help);

  // Whether this flag was given on the command line.
  bool given(const std::string& name) const;

  // All declared flags with the current values of their variables as text, so that two runs or
  // two ranks can be compared. A flag with two names ("--shuffle,!--no-shuffle") is listed
  // under the first.
  struct Value {
    std::string flag;
    std::string text;
  };
  std::vector<Value> values() const;

  // Adds a check that runs after the flags are read, for flags that must match each other or
  // the files that they name. The check throws Error("--flag: what is wrong").
  void check(std::function<void()> check);
  // Adds a check that sends messages. It runs after all other checks have passed on every rank,
  // so that all ranks take part.
  void check_together(std::function<void()> check);

  // The outcome of reading the flags: continue (nullopt), or print `text` and exit with
  // `status` (0 for --help and --version, 2 for bad usage). Bad usage never throws.
  struct Exit {
    int status;
    std::string text;
  };
  std::optional<Exit> parse(int argc, char** argv);
  std::optional<Exit> run_checks_together();

 private:
  // `show` returns the variable's value as text, for the default in the help and for values().
  void add(const std::string& name, const std::string& type, const std::string& help,
           std::function<std::string()> show, std::function<void(const std::string&)> read);
  template <class T>
  static T parse_between(const std::string& name, const std::string& text, T smallest,
                         T largest, std::string_view units = "");

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Called on all ranks of `comm`, which holds every rank of the program. If one rank finds a
// mistake (such as a file that is missing on its host), all exit: one reduction gives every
// rank the exit status, and rank 0 prints the message. If each rank printed its own message,
// the message would appear many times; if a rank exited before MPI_Init, its message could be
// lost.
//
// Adds the flags of the watch, if the program has one (common/watch.hpp).
std::optional<int> parse(CommandLine& command_line, const Communicator& comm, int argc,
                         char** argv);

// The flags that every program has. Only programs that print `rows` have --json.
struct CommonOptions {
  std::string device = "auto";
  std::uint64_t seed = 0;
  bool json = false;
  int threads = 1;

  void declare(CommandLine& command_line, bool rows = true);
};

template <std::integral T>
void CommandLine::number(const std::string& name, T& value, std::int64_t smallest,
                         std::int64_t largest, const std::string& help,
                         std::string_view units) {
  // Read as a signed 64-bit number and checked: -5 must not become 18446744073709551611.
  add(
      name, "N", help, [&value] { return std::to_string(value); },
      [=, &value](const std::string& text) {
        value = static_cast<T>(parse_between(name, text, smallest, largest, units));
      });
}

}  // namespace dist
