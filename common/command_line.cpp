#include "common/command_line.hpp"

#include "common/atomic_file.hpp"
#include "common/check.hpp"
#include "common/console.hpp"
#include "common/join.hpp"
#include "common/watch.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace dist {
namespace {

constexpr const char* kAdvanced = "More options";

// Returns the parts between commas; an empty text has one empty part.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text + ',');
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

CommandLine::Exit bad_usage(const std::string& why) {
  constexpr int kBadUsage = 2;
  return {kBadUsage, fmt::format("error: {}\n", printable(why))};
}

}  // namespace

struct CommandLine::Impl {
  CLI::App app;
  std::string group = "Options";
  bool help = false;
  bool help_all = false;
  bool version = false;
  std::vector<std::pair<std::string, std::function<std::string()>>> values;  // flag, show
  std::vector<std::function<void()>> checks;
  std::vector<std::function<void()>> checks_together;
};

CommandLine::CommandLine(const std::string& program, const std::string& description)
    : impl_(std::make_unique<Impl>()) {
  CLI::App& app = impl_->app;
  app.name(program);
  app.description(description);
  app.allow_extras();
  app.set_help_flag();  // our own help flags, below, print only after the ranks have agreed
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  // Otherwise CLI11 would read --flag=3 as true and --flag=-1 as false.
  app.option_defaults()->disable_flag_override();
  app.add_flag("-h,--help", impl_->help, "show the flags that a reader of this lesson needs");
  app.add_flag("--help-all", impl_->help_all, "show every flag");
  app.add_flag("--version", impl_->version, "show the version of this course");
}

CommandLine::~CommandLine() = default;

void CommandLine::advanced() {
  impl_->group = kAdvanced;
}

void CommandLine::flag(const std::string& name, bool& value, const std::string& help) {
  impl_->app.add_flag(name, value, help)->group(impl_->group);
  impl_->values.emplace_back(name.substr(0, name.find(',')),
                             [&value] { return value ? "yes" : "no"; });
}

void CommandLine::add(const std::string& name, const std::string& type, const std::string& help,
                      std::function<std::string()> show,
                      std::function<void(const std::string&)> read) {
  CLI::Option* option = impl_->app.add_option_function<std::string>(
      name, [read = std::move(read)](const std::string& text) { read(text); }, help);
  option->type_name(type)->group(impl_->group);
  if (const std::string initial = show(); !initial.empty()) option->default_str(initial);
  impl_->values.emplace_back(name, std::move(show));
}

template <class T>
T CommandLine::parse_between(const std::string& name, const std::string& text, T smallest,
                             T largest, std::string_view units) {
  T value{}, unit{1};
  const char* end = text.data() + text.size();
  const std::size_t place = text.empty() ? units.npos : units.find(text.back());
  if (place != units.npos) {
    unit = static_cast<T>(std::pow(1024, place + 1));
    --end;
  }
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  if (stop != end || problem == std::errc::invalid_argument || !std::isfinite(value)) {
    throw Error(fmt::format("{}: '{}' is not a {}number", name, text,
                            std::integral<T> ? "whole " : ""));
  }
  if (problem == std::errc::result_out_of_range || value < smallest / unit ||
      value > largest / unit || value * unit < smallest) {
    throw Error(fmt::format("{}: {} is not between {} and {}", name, text, smallest, largest));
  }
  return value * unit;
}
template std::int64_t CommandLine::parse_between(const std::string&, const std::string&,
                                                 std::int64_t, std::int64_t, std::string_view);

void CommandLine::number(const std::string& name, double& value, double smallest,
                         double largest, const std::string& help) {
  add(
      name, "X", help, [&value] { return fmt::format("{}", value); },
      [name, &value, smallest, largest](const std::string& text) {
        value = parse_between(name, text, smallest, largest);
      });
}

void CommandLine::numbers(const std::string& name, std::span<double> values, double smallest,
                          double largest, const std::string& help) {
  add(
      name, "X,X,...", help, [values] { return join(values, ","); },
      [name, values, smallest, largest](const std::string& text) {
        const std::vector<std::string> parts = parts_of(text);
        if (parts.size() != values.size()) {
          throw Error(fmt::format("{}: '{}' is not {} numbers separated by commas", name, text,
                                  values.size()));
        }
        for (std::size_t i = 0; i < parts.size(); ++i) {
          values[i] = parse_between(name, parts[i], smallest, largest);
        }
      });
}

void CommandLine::choice(const std::string& name, std::string& value,
                         std::vector<std::string> allowed, const std::string& help) {
  const std::string type = join(allowed, "|");
  add(
      name, type, help, [&value] { return value; },
      [name, &value, allowed = std::move(allowed)](const std::string& text) {
        if (std::find(allowed.begin(), allowed.end(), text) == allowed.end()) {
          throw Error(
              fmt::format("{}: '{}' is not one of {}", name, text, join(allowed, ", ")));
        }
        value = text;
      });
}

void CommandLine::text(const std::string& name, std::string& value, const std::string& help) {
  add(
      name, "TEXT", help, [&value] { return value; },
      [name, &value](const std::string& text) {
        if (text.empty()) throw Error(fmt::format("{}: must not be empty", name));
        value = text;
      });
}

void CommandLine::list(const std::string& name, std::vector<std::size_t>& value,
                       const std::string& help) {
  add(
      name, "N,N,...", help, [&value] { return join(value, ","); },
      [name, &value](const std::string& text) {
        std::vector<std::size_t> read;
        for (const std::string& part : parts_of(text)) {
          // With 2^24 as the limit, the product of two such numbers cannot overflow.
          read.push_back(
              static_cast<std::size_t>(parse_between<std::int64_t>(name, part, 1, 1 << 24)));
        }
        value = std::move(read);
      });
}

bool CommandLine::given(const std::string& name) const {
  const CLI::Option* option = impl_->app.get_option_no_throw(name);
  return option != nullptr && option->count() > 0;
}

std::vector<CommandLine::Value> CommandLine::values() const {
  std::vector<Value> all;
  for (const auto& [flag, show] : impl_->values) all.push_back({flag, show()});
  return all;
}

void CommandLine::check(std::function<void()> check) {
  impl_->checks.push_back(std::move(check));
}

void CommandLine::check_together(std::function<void()> check) {
  impl_->checks_together.push_back(std::move(check));
}

std::optional<CommandLine::Exit> CommandLine::parse(int argc, char** argv) {
  CLI::App& app = impl_->app;
  try {
    app.parse(argc, argv);
    if (const auto extras = app.remaining(); !extras.empty()) {
      throw Error(fmt::format("{}: unknown flag; --help-all lists all flags", extras.front()));
    }
    if (impl_->help || impl_->help_all) {
      for (CLI::Option* option : app.get_options()) {
        if (!impl_->help_all && option->get_group() == kAdvanced) option->group("");
      }
      return Exit{0, app.help()};
    }
    if (impl_->version) return Exit{0, fmt::format("{} {}\n", app.get_name(), DIST_VERSION)};
    for (const auto& check : impl_->checks) check();
  } catch (const CLI::ParseError& error) {
    std::string text = error.what();
    if (const std::size_t end = text.find(" was given a disallowed flag override");
        end != std::string::npos) {
      text = "--" + text.substr(0, end) + ": takes no value";
    }
    return bad_usage(text);
  } catch (const std::exception& error) {  // the standard library may throw file errors
    return bad_usage(error.what());
  }
  return std::nullopt;
}

std::optional<CommandLine::Exit> CommandLine::run_checks_together() {
  try {
    for (const auto& check : impl_->checks_together) check();
  } catch (const Error& error) {
    return bad_usage(error.what());
  }
  return std::nullopt;
}

namespace {

// Declares the flags that the watch has already read, and holds their values.
struct WatchFlags {
  std::string trace;
  bool strict = false;
  double timeout_s = kDefaultTimeout_s;

  WatchFlags(CommandLine& command_line, bool writes) {
    if (watch_table() == nullptr) return;
    command_line.text("--trace", trace, "write a Chrome trace (JSON) of this run");
    if (writes) command_line.check([this] { claim("--trace", trace); });
    command_line.flag("--strict", strict, "send synchronously, so that MPI buffers no message");
    command_line.number("--timeout", timeout_s, 0.0, kLongestTimeout_s,
                        "report a hang after this many seconds without progress; 0: never");
  }
};

// Called on all ranks. Returns the status with which all ranks exit if any rank must exit.
std::optional<int> agree(const Communicator& comm,
                         const std::optional<CommandLine::Exit>& mine) {
  // The lowest rank that wants to exit speaks for all.
  int speaker = mine ? comm.rank() : comm.size();
  const bool alone = comm.get() == MPI_COMM_NULL;
  if (!alone) {
    MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &speaker, 1, MPI_INT, MPI_MIN, comm.get()));
  }
  if (speaker == comm.size()) return std::nullopt;
  const std::vector<std::string> texts = gather_text(comm, mine ? mine->text : "");
  int status = mine ? mine->status : 0;
  if (!alone) MPI_CHECK(MPI_Bcast(&status, 1, MPI_INT, speaker, comm.get()));
  if (comm.rank() == 0) {
    std::FILE* const out = status == 0 ? stdout : stderr;
    std::fputs(texts[static_cast<std::size_t>(speaker)].c_str(), out);
    if (std::fflush(out) != 0) status = 1;
  }
  return status;
}

}  // namespace

std::optional<int> parse(CommandLine& command_line, const Communicator& comm, int argc,
                         char** argv) {
  command_line.advanced();
  const WatchFlags flags(command_line, /*writes=*/comm.rank() == 0);
  std::optional<int> status = agree(comm, command_line.parse(argc, argv));
  if (!status) status = agree(comm, command_line.run_checks_together());
  if (const WatchTable* const watch = watch_table()) watch->flags_are_read(!status);
  return status;
}

void CommonOptions::declare(CommandLine& command_line, bool rows) {
  command_line.choice("--device", device, {"auto", "cpu", "cuda"},
                      "where tensors live; auto: on a GPU if one is available");
  command_line.number("--seed", seed, 0, INT64_MAX, "seed of all random numbers");
  if (rows)
    command_line.flag("--json", json, "print one JSON object per line on standard output");
  command_line.number("--threads", threads, 1, 1024, "compute threads per rank");
}

}  // namespace dist
