#include "common/command_line.hpp"

#include "common/build_config.hpp"
#include "common/check.hpp"
#include "common/console.hpp"
#include "common/join.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ranges>
#include <sstream>

namespace dist {

constexpr const char* kAdvanced = "More options";

// Returns the parts between commas; an empty text has one empty part.
static std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text + ',');
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

template <class T>
static T parse_between(const std::string& name, const std::string& text, T smallest, T largest,
                       std::string_view units = "") {
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

template <class T>
static std::string text_of(const T& value) {
  if constexpr (std::ranges::range<T> && !std::same_as<T, std::string>) {
    return join(value, ",");
  } else {
    return fmt::format("{}", value);
  }
}

static CommandLine::Exit bad_usage(const std::string& why) {
  return {/*status=*/2, fmt::format("error: {}\n", printable(why))};
}

struct CommandLine::Impl {
  CLI::App app;
  std::string group = "Options";
  bool help = false, help_all = false, version = false;
  std::vector<std::function<Value()>> values;
  struct Check {
    bool sends_messages;
    std::function<void()> run;
  };
  std::vector<Check> checks;
  std::size_t next_check = 0;

  // A check may have set a default that depends on other flags. It is the text, too.
  static Value value_of(const CLI::Option& option, const std::string& name,
                        const std::string& text, Effect effect, const std::string& initial) {
    return {name, text, effect, option.count() > 0 ? initial : text};
  }

  // Runs the next checks up to one that sends messages.
  void run_own_checks() {
    while (next_check < checks.size() && !checks[next_check].sends_messages) {
      checks[next_check++].run();
    }
  }

  // Declares a flag of this type (as --help names it), whose value `read` returns for a text.
  template <class T>
  void add(const std::string& name, Effect effect, const std::string& type,
           const std::string& explanation, T& value,
           std::type_identity_t<std::function<T(const std::string&)>> read) {
    add(
        name, effect, type, explanation, [&value] { return text_of(value); },
        [read, &value](const std::string& text) { value = read(text); });
  }
  // The same if the variable is not what is printed: `get` returns its text, `set` reads one.
  void add(const std::string& name, Effect effect, const std::string& type,
           const std::string& explanation, const std::function<std::string()>& get,
           const std::function<void(const std::string&)>& set) {
    CLI::Option* option = app.add_option_function<std::string>(name, set, explanation);
    option->type_name(type)->group(group);
    const std::string initial = get();
    if (!initial.empty()) option->default_str(initial);
    values.push_back([=] { return value_of(*option, name, get(), effect, initial); });
  }
};

CommandLine::CommandLine(const std::string& program, const std::string& description)
    : impl_(std::make_shared<Impl>()) {
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

void CommandLine::advanced() {
  impl_->group = kAdvanced;
}

template <class T>
void CommandLine::flag(const std::string& name, T& value, const std::string& help) {
  // CLI11 adds up how often a flag is given, except for a bool.
  const auto read = [&value](std::int64_t count) { value = count > 0; };
  CLI::Option* option = impl_->app.add_flag_function(name, read, help);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)->group(impl_->group);
  const auto get = [&value]() -> std::string {
    const std::optional<bool> now = value;
    return !now ? "" : *now ? "yes" : "no";
  };
  impl_->values.push_back(
      [=, name = name.substr(0, name.find(',')), effect = effect_, initial = get()] {
        return Impl::value_of(*option, name, get(), effect, initial);
      });
}
template void CommandLine::flag(const std::string&, bool&, const std::string&);
template void CommandLine::flag(const std::string&, std::optional<bool>&, const std::string&);

template <class T>
void CommandLine::number(const std::string& name, T& value, Limit<T> smallest, Limit<T> largest,
                         const std::string& help, std::string_view units) {
  // Whole numbers are read as signed ones: -5 must not become 18446744073709551611.
  impl_->add(name, effect_, std::integral<T> ? "N" : "X", help, value, [=](const auto& text) {
    return static_cast<T>(parse_between(name, text, smallest, largest, units));
  });
}
template void CommandLine::number(const std::string&, int&, std::int64_t, std::int64_t,
                                  const std::string&, std::string_view);
template void CommandLine::number(const std::string&, std::uint64_t&, std::int64_t,
                                  std::int64_t, const std::string&, std::string_view);
template void CommandLine::number(const std::string&, double&, double, double,
                                  const std::string&, std::string_view);

void CommandLine::numbers(const std::string& name, std::array<double, 2>& value,
                          double smallest, double largest, const std::string& help) {
  impl_->add(name, effect_, "X,X,...", help, value, [=](const std::string& text) {
    const std::vector<std::string> parts = parts_of(text);
    if (parts.size() != 2) {
      throw Error(fmt::format("{}: '{}' is not 2 numbers separated by commas", name, text));
    }
    return std::array{parse_between(name, parts[0], smallest, largest),
                      parse_between(name, parts[1], smallest, largest)};
  });
}

void CommandLine::choice(const std::string& name, std::string& value,
                         const std::vector<std::string>& allowed, const std::string& help) {
  choice(
      name, allowed, [&value] { return value; },
      [&value](const std::string& text) { value = text; }, help);
}

void CommandLine::choice(const std::string& name, const std::vector<std::string>& allowed,
                         const std::function<std::string()>& get,
                         const std::function<void(const std::string&)>& set,
                         const std::string& help) {
  const auto read = [=](const std::string& text) {
    if (std::ranges::count(allowed, text) > 0) return set(text);
    throw Error(fmt::format("{}: '{}' is not one of {}", name, text, join(allowed, ", ")));
  };
  impl_->add(name, effect_, join(allowed, "|"), help, get, read);
}

void CommandLine::text(const std::string& name, std::string& value, const std::string& help) {
  impl_->add(name, effect_, "TEXT", help, value, [=](const std::string& text) {
    if (!text.empty()) return text;
    throw Error(fmt::format("{}: must not be empty", name));
  });
}

void CommandLine::list(const std::string& name, std::vector<std::size_t>& value,
                       const std::string& help) {
  impl_->add(name, effect_, "N,N,...", help, value, [=](const std::string& text) {
    std::vector<std::size_t> numbers;
    for (const std::string& part : parts_of(text)) {
      // With 2^24 as the limit, the product of two such numbers cannot overflow.
      numbers.push_back(
          static_cast<std::size_t>(parse_between<std::int64_t>(name, part, 1, 1 << 24)));
    }
    return numbers;
  });
}

bool CommandLine::given(const std::string& name) const {
  const CLI::Option* option = impl_->app.get_option_no_throw(name);
  if (option == nullptr) throw Error(fmt::format("{}: the program has no such flag", name));
  return option->count() > 0;
}

std::string CommandLine::text_given(const std::string& name) const {
  const CLI::Option* option = impl_->app.get_option_no_throw(name);
  return option == nullptr || option->count() == 0 ? "" : option->results().back();
}

std::vector<CommandLine::Value> CommandLine::values() const {
  std::vector<Value> all;
  for (const auto& value : impl_->values) all.push_back(value());
  std::erase_if(all, [](const Value& one) { return one.effect == Effect::watching; });
  return all;
}

void CommandLine::check(std::function<void()> check) {
  impl_->checks.push_back({/*sends_messages=*/false, std::move(check)});
}

void CommandLine::check_together(std::function<void()> check) {
  impl_->checks.push_back({/*sends_messages=*/true, std::move(check)});
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
    impl_->next_check = 0;
    impl_->run_own_checks();
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

bool CommandLine::has_more_checks() const {
  return impl_->next_check < impl_->checks.size();
}

std::optional<CommandLine::Exit> CommandLine::run_more_checks() {
  try {
    impl_->checks[impl_->next_check++].run();
    impl_->run_own_checks();
  } catch (const std::exception& error) {  // the standard library may throw file errors
    return bad_usage(error.what());
  }
  return std::nullopt;
}

}  // namespace dist
