#include "common/command_line.hpp"

#include "common/check.hpp"
#include "common/console.hpp"
#include "common/join.hpp"
#include "common/output_file.hpp"
#include "common/watch.hpp"

#include <mpi.h>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace dist {
namespace {

constexpr int kBadUsage = 2;
constexpr const char* kAdvanced = "More options";

}  // namespace

struct CommandLine::Impl {
  CLI::App app;
  std::string group = "Options";
  bool help = false;
  bool help_all = false;
  bool version = false;
  struct Shown {
    std::string flag;
    std::function<std::string()> show;
  };
  std::vector<Shown> values;
  std::vector<std::function<void()>> checks;
  std::vector<std::function<void()>> checks_together;
};

CommandLine::CommandLine(const std::string& program, const std::string& description)
    : impl_(std::make_unique<Impl>()) {
  CLI::App& app = impl_->app;
  app.name(program);
  app.description(description);
  app.allow_extras();
  app.set_help_flag();  // ours below print after the ranks have agreed
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_flag("-h,--help", impl_->help, "what a reader of this lesson needs")
      ->disable_flag_override();
  app.add_flag("--help-all", impl_->help_all, "every flag")->disable_flag_override();
  app.add_flag("--version", impl_->version, "the version of this course")
      ->disable_flag_override();
}

CommandLine::~CommandLine() = default;

void CommandLine::advanced() {
  impl_->group = kAdvanced;
}

void CommandLine::flag(const std::string& name, bool& value, const std::string& help) {
  // Without overrides: CLI11 would read --flag=3 as true and --flag=-1 as false.
  impl_->app.add_flag(name, value, help)->group(impl_->group)->disable_flag_override();
  impl_->values.push_back(
      {name.substr(0, name.find(',')), [&value] { return value ? "yes" : "no"; }});
}

void CommandLine::add(const std::string& name, const std::string& type, const std::string& help,
                      std::function<std::string()> show,
                      std::function<void(const std::string&)> read) {
  CLI::Option* option = impl_->app.add_option_function<std::string>(
      name, [read = std::move(read)](const std::string& text) { read(text); }, help);
  option->type_name(type)->group(impl_->group);
  if (const std::string initial = show(); !initial.empty()) option->default_str(initial);
  impl_->values.push_back({name, std::move(show)});
}

std::int64_t CommandLine::parse_integer(const std::string& name, const std::string& text,
                                        std::int64_t smallest, std::int64_t largest) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  if (problem == std::errc::result_out_of_range ||
      (problem == std::errc{} && stop == end && (value < smallest || value > largest))) {
    throw Error(fmt::format("{}: {} is not between {} and {}", name, text, smallest, largest));
  }
  if (problem != std::errc{} || stop != end) {
    throw Error(fmt::format("{}: '{}' is not a whole number", name, text));
  }
  return value;
}

double CommandLine::parse_number(const std::string& name, const std::string& text,
                                 double smallest, double largest) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc{} || stop != end || !std::isfinite(value)) {
    throw Error(fmt::format("{}: '{}' is not a number", name, text));
  }
  if (value < smallest || value > largest) {
    throw Error(
        fmt::format("{}: {} is not between {:g} and {:g}", name, text, smallest, largest));
  }
  return value;
}

void CommandLine::number(const std::string& name, double& value, double smallest,
                         double largest, const std::string& help) {
  add(
      name, "X", help, [&value] { return fmt::format("{}", value); },
      [name, &value, smallest, largest](const std::string& text) {
        value = parse_number(name, text, smallest, largest);
      });
}

void CommandLine::numbers(const std::string& name, std::span<double> values, double smallest,
                          double largest, const std::string& help) {
  add(
      name, "X,X,...", help, [values] { return join(values, ","); },
      [name, values, smallest, largest](const std::string& text) {
        const auto commas = static_cast<std::size_t>(std::count(text.begin(), text.end(), ','));
        if (commas + 1 != values.size()) {
          throw Error(fmt::format("{}: '{}' is not {} numbers with commas between", name, text,
                                  values.size()));
        }
        std::size_t begin = 0;
        for (double& value : values) {
          const std::size_t comma = std::min(text.find(',', begin), text.size());
          value = parse_number(name, text.substr(begin, comma - begin), smallest, largest);
          begin = comma + 1;
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
          throw Error(fmt::format("{}: '{}' is none of {}", name, text, join(allowed, ", ")));
        }
        value = text;
      });
}

void CommandLine::text(const std::string& name, std::string& value, const std::string& help) {
  add(
      name, "TEXT", help, [&value] { return value; },
      [name, &value](const std::string& text) {
        if (text.empty()) throw Error(fmt::format("{}: an empty name", name));
        value = text;
      });
}

void CommandLine::list(const std::string& name, std::vector<std::size_t>& value,
                       const std::string& help) {
  add(
      name, "N,N,...", help, [&value] { return join(value, ","); },
      [name, &value](const std::string& text) {
        std::vector<std::size_t> read;
        for (std::size_t begin = 0; begin <= text.size();) {
          const std::size_t comma = std::min(text.find(',', begin), text.size());
          // 2^24 keeps a product of two of them far from overflow.
          read.push_back(static_cast<std::size_t>(
              parse_integer(name, text.substr(begin, comma - begin), 1, 1 << 24)));
          begin = comma + 1;
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
      throw Error(fmt::format("{}: unknown flag; --help-all lists all", extras.front()));
    }
    if (impl_->help || impl_->help_all) {
      if (!impl_->help_all) {
        for (CLI::Option* option : app.get_options()) {
          if (option->get_group() == kAdvanced) option->group("");  // hidden
        }
      }
      return Exit{0, app.help()};
    }
    if (impl_->version) return Exit{0, fmt::format("{} {}\n", app.get_name(), DIST_VERSION)};
    for (const auto& check : impl_->checks) check();
  } catch (const CLI::ParseError& error) {
    std::string text = error.what();
    const std::size_t override_at = text.find(" was given a disallowed flag override");
    if (override_at != std::string::npos)
      text = "--" + text.substr(0, override_at) + ": takes no value";
    return Exit{kBadUsage, fmt::format("error: {}\n", text)};
  } catch (const std::exception& error) {  // ours, and the standard library's about a file
    return Exit{kBadUsage, fmt::format("error: {}\n", error.what())};
  }
  return std::nullopt;
}

std::optional<CommandLine::Exit> CommandLine::run_checks_together() {
  try {
    for (const auto& check : impl_->checks_together) check();
  } catch (const Error& error) {
    return Exit{kBadUsage, fmt::format("error: {}\n", error.what())};
  }
  return std::nullopt;
}

namespace {

// The watch has read these already. They are declared to be checked, and for --help-all.
struct WatchFlags {
  std::string trace;
  bool strict = false;
  double timeout_s = kDefaultTimeout_s;

  void declare(CommandLine& command_line, bool writes) {
    command_line.text(kTraceFlag.name, trace, kTraceFlag.help);
    command_line.flag(kStrictFlag.name, strict, kStrictFlag.help);
    command_line.number(kTimeoutFlag.name, timeout_s, 0.0, kLongestTimeout_s,
                        kTimeoutFlag.help);
    command_line.check([this, &command_line, writes] {
      for (const char* const flag : {kTraceFlag.name, kStrictFlag.name}) {
        if (command_line.given(flag) && watch_table() == nullptr) {
          throw Error(fmt::format("{}: this program was built without the watch", flag));
        }
      }
      if (writes && !trace.empty()) require_writable(kTraceFlag.name, trace);
    });
  }
};

// Called on all ranks: the status with which all leave if any wants to.
std::optional<int> agree(const Communicator& comm,
                         const std::optional<CommandLine::Exit>& mine) {
  // The lowest rank that wants to leave speaks for all.
  int speaker = mine ? comm.rank() : comm.size();
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &speaker, 1, MPI_INT, MPI_MIN, comm.get()));
  if (speaker == comm.size()) return std::nullopt;
  const std::vector<std::string> texts = gather_text(comm, mine ? mine->text : "");
  int status = mine ? mine->status : 0;
  MPI_CHECK(MPI_Bcast(&status, 1, MPI_INT, speaker, comm.get()));
  if (comm.rank() == 0) {
    const std::string& text = texts[static_cast<std::size_t>(speaker)];
    std::fputs(text.c_str(), status == 0 ? stdout : stderr);
  }
  return status;
}

}  // namespace

std::optional<int> parse(CommandLine& command_line, const Communicator& comm, int argc,
                         char** argv) {
  if (comm.get() == MPI_COMM_NULL) return parse(command_line, argc, argv);
  WatchFlags flags;
  command_line.advanced();
  flags.declare(command_line, /*writes=*/comm.rank() == 0);
  std::optional<int> status = agree(comm, command_line.parse(argc, argv));
  if (!status) status = agree(comm, command_line.run_checks_together());
  if (const WatchTable* const watch = watch_table()) watch->flags_are_read(!status);
  return status;
}

std::optional<int> parse(CommandLine& command_line, int argc, char** argv) {
  const std::optional<CommandLine::Exit> exit = command_line.parse(argc, argv);
  if (!exit) return std::nullopt;
  std::fputs(exit->text.c_str(), exit->status == 0 ? stdout : stderr);
  return exit->status;
}

void CommonOptions::declare(CommandLine& command_line) {
  command_line.choice("--device", device, {"auto", "cpu", "cuda"},
                      "where tensors live; auto: a GPU if this rank can have one");
  command_line.number<std::uint64_t>("--seed", seed, 0,
                                     std::numeric_limits<std::int64_t>::max(),
                                     "seed of all random numbers");
  command_line.flag("--json", json, "one JSON object per line on standard output");
  command_line.number("--threads", threads, 1, 1024, "compute threads per rank");
}

}  // namespace dist
