// The flags of a program, read strictly: absurd values are refused, not rounded or wrapped.
#pragma once

#include "common/communicator.hpp"
#include "common/names.hpp"

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace dist {

// What a flag can change: the results, or only how sums are rounded, or nothing that is
// computed, such as how long a run is, what it prints, and which files it writes. `watching`
// also leaves the program alone, and not every rank need have such a flag.
enum class Effect { results, rounding, nothing, watching };

// Declare the flags, then parse once. Each variable's initial value is its flag's default.
// Copies declare flags of the same command line.
class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& description);

  // Only --help-all shows flags that are declared after this call.
  void advanced();
  // The same command line, whose flags have this effect. Others count as changing results.
  CommandLine only(Effect effect) const { return {impl_, effect}; }

  // T is bool or, if it matters whether the flag is given, std::optional<bool>.
  template <class T>
  void flag(const std::string& name, T& value, const std::string& help);
  template <class T>
  using Limit = std::conditional_t<std::integral<T>, std::int64_t, double>;
  // With `units`, such as "KMG", the number may end in one: 1K is 1024, and 1M is 1024K.
  template <class T>
  void number(const std::string& name, T& value, Limit<T> smallest, Limit<T> largest,
              const std::string& help, std::string_view units = "");
  // Two comma-separated numbers.
  void numbers(const std::string& name, std::array<double, 2>& value, double smallest,
               double largest, const std::string& help);
  void choice(const std::string& name, std::string& value,
              const std::vector<std::string>& allowed, const std::string& help);
  template <class E>
  void choice(const std::string& name, E& value, const Names<E>& names,
              const std::string& help) {
    choice(
        name, names.all(), [&value, names] { return names.of(value); },
        [&value, names](const std::string& text) { value = names.at(text); }, help);
  }
  void text(const std::string& name, std::string& value, const std::string& help);
  // Comma-separated positive whole numbers.
  void list(const std::string& name, std::vector<std::size_t>& value, const std::string& help);

  // Whether this flag was given on the command line. Throws if it was not declared: a name that
  // was changed elsewhere would otherwise count as never given.
  bool given(const std::string& name) const;
  // What was given for this flag; empty if nothing was, or if there is no such flag: a program
  // without the watch has none of its flags.
  std::string text_given(const std::string& name) const;

  // All flags but those for watching, with the values of their variables as text, so that runs
  // or ranks can be compared. A flag with two names ("--shuffle,!--no-shuffle") is listed under
  // the first.
  struct Value {
    std::string flag, text;
    Effect effect = Effect::results;
    std::string default_text = "";  // the text if the flag had not been given
  };
  std::vector<Value> values() const;

  // Adds a check that runs after the flags are read, for flags that must match each other or
  // the files that they name. The check throws Error("--flag: what is wrong").
  void check(std::function<void()> check);
  // Adds a check that sends messages. It runs once all earlier checks have passed on every
  // rank, and later ones run once it has. It throws on all ranks or on none.
  void check_together(std::function<void()> check);

  // The outcome of reading the flags: continue (nullopt), or print `text` and exit with
  // `status` (0 for --help and --version, 2 for bad usage). Bad usage never throws.
  struct Exit {
    int status;
    std::string text;
  };
  // Reads the flags, then runs the checks up to the first one that sends messages.
  std::optional<Exit> parse(int argc, char** argv);
  // Whether checks are left, and the next of them: one that sends messages, and what follows up
  // to the next such one.
  bool has_more_checks() const;
  std::optional<Exit> run_more_checks();

 private:
  // One of the `allowed` texts: `get` returns the variable's, `set` stores one.
  void choice(const std::string& name, const std::vector<std::string>& allowed,
              const std::function<std::string()>& get,
              const std::function<void(const std::string&)>& set, const std::string& help);

  struct Impl;
  std::shared_ptr<Impl> impl_;
  Effect effect_ = Effect::results;

  CommandLine(std::shared_ptr<Impl> impl, Effect effect)
      : impl_(std::move(impl)), effect_(effect) {}
};

// Called on all ranks of `comm`, which holds every rank of the program. If one rank finds a
// mistake (such as a file that is missing on its host), all exit: every rank gets the exit
// status, and rank 0 prints the message. If each rank printed, the message would
// appear many times; if a rank exited before MPI_Init, its message could be lost.
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

  void declare(CommandLine& flags, bool rows = true);
};

}  // namespace dist
